"""Lines of the user's source that may have run just before a line at which Python had ended.

A sampler gets the interpreter lock where the job releases it: in an operator or a read, or at the
next call after the switch interval. Short work in Python before that line is then sampled at that
line. The source shows what it can have been.
"""

from __future__ import annotations

import ast
from typing import Final

from whyidle.analysis.lines.source_statements import calls_in, last_name, parse_source

_LOOPS: Final = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_FUNCTION: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


def find_preceding_lines(text: str, line: int) -> list[int]:
    """Return lines that may have run before ``line`` in its function, the likeliest first: those
    with loops, or calls of functions of the file that have some, then other calls, each from the
    nearest. At the line of a ``def``, which is sampled when a call of it begins, the call before
    has run all of it. Empty where the text does not show the function."""
    tree = parse_source(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, _FUNCTION)] if tree else []
    around = [node for node in functions if node.lineno <= line <= (node.end_lineno or 0)]
    if not around:
        return []
    function = max(around, key=lambda node: node.lineno)
    whole = line < function.body[0].lineno
    looping = {node.name: _first_loop(node) for node in functions}
    found: list[tuple[int, int, int]] = []
    for node in _simple_statements(function.body):
        if not whole and node.lineno > line:
            continue
        called = {last_name(call.func) for call in calls_in(node)}
        loops = [start for name in called if (start := looping.get(name)) is not None]
        if loops or _first_loop(node) is not None:
            found.append((0, -node.lineno, node.lineno))
            found += [(0, -node.lineno, start) for start in loops]
        elif called:
            found.append((1, -node.lineno, node.lineno))
    return list(dict.fromkeys(number for *_, number in sorted(found, key=lambda row: row[:2])))


def _first_loop(node: ast.AST) -> int | None:
    inner = (part for part in ast.walk(node) if isinstance(part, _LOOPS))
    return min((part.lineno for part in inner), default=None)


def _simple_statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements in order, loops whole, the parts of other blocks one by one."""
    found: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.If | ast.With | ast.Try):
            for part in ("body", "orelse", "finalbody"):
                found += _simple_statements(getattr(node, part, []))
        else:
            found.append(node)
    return found
