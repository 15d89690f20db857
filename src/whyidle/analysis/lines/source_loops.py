"""How many loops over data surround each line of a function, from its source text."""

from __future__ import annotations

import ast
from collections import Counter

from whyidle.analysis.lines.source_statements import parse_source

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LITERALS = (ast.Tuple, ast.List, ast.Set, ast.Constant)


def count_loops(source: str) -> Counter[int]:
    """Return line -> loops around it within its function. Loops over a few values that are written
    out, and ``while True``, are none over data. Empty where the source is no valid Python."""
    depths: Counter[int] = Counter()
    if (tree := parse_source(source)) is not None:
        _visit(tree, 0, depths)
    return depths


def find_decisive_lines(source: str, loops: Counter[int]) -> dict[int, int]:
    """Return the first line of each statement of several lines -> its line with most loops, if that
    is another: what a statement builds in a loop is done before the call that begins it."""
    tree = parse_source(source)
    decisive = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            most = max(lines, key=lambda line: loops[line])
            if loops[most] > loops[node.lineno]:
                decisive[node.lineno] = most
    return decisive


def _visit(node: ast.AST, depth: int, depths: Counter[int]) -> None:
    looped: list[ast.AST] = []
    if isinstance(node, _FUNCTIONS):
        depth = 0
    elif isinstance(node, (ast.For, ast.AsyncFor)) and _is_over_data(node.iter):
        looped = [] if _calls_its_items(node) else [*node.body]
    elif isinstance(node, ast.While) and not isinstance(node.test, ast.Constant):
        looped = [node.test, *node.body]  # its condition is evaluated each time
    elif isinstance(node, _COMPREHENSIONS):
        depth += sum(_is_over_data(part.iter) for part in node.generators)
    line = getattr(node, "lineno", None)
    if line is not None:
        depths[line] = max(depths[line], depth)
    for child in ast.iter_child_nodes(node):
        _visit(child, depth + (child in looped), depths)


def _calls_its_items(loop: ast.For | ast.AsyncFor) -> bool:
    """Whether a loop applies functions in turn, as ``for t in self.transforms: x = t(x)`` does."""
    name = getattr(loop.target, "id", None)
    return any(
        isinstance(node, ast.Call) and getattr(node.func, "id", "") == name
        for one in loop.body
        for node in ast.walk(one)
    )


def _is_over_data(values: ast.expr) -> bool:
    return not isinstance(values, _LITERALS)
