"""What the source says of a line at which a thread waits: what a loop that sleeps looks at, and
whether a call makes what its loop takes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from whyidle.analysis.lines.source_lines import frame_place, own_frame
from whyidle.model.diagnosis import Place

N = TypeVar("N", bound=ast.AST)
_ELSEWHERE = re.compile(r"/(queue|multiprocessing/(queues|pool|connection)|concurrent/.*)\.py\(")
_TELLS = frozenset(["print", "log", "info", "debug", "warning", "write", "append", "str", "format"])


@lru_cache(maxsize=64)
def _nodes_of(file: str) -> tuple[ast.AST, ...]:
    try:
        return tuple(ast.walk(ast.parse(Path(file).read_bytes())))
    except (OSError, SyntaxError, ValueError):
        return ()


def _statements_around(place: Place | None) -> Iterator[ast.stmt]:
    """The statements around a line, from the outside."""
    for node in _nodes_of(place.file or "") if place is not None else ():
        line = place.line or 0 if place is not None else 0
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            yield node


def polled_call(place: Place | None) -> str:
    """The call that ends a loop around a line, if the loop but calls it and sleeps; else ""."""
    loops = [node for node in _statements_around(place) if isinstance(node, ast.While)]
    calls = _nodes(loops[-1], ast.Call) if loops else []
    if not any(_name_of(call) == "sleep" for call in calls) or len(loops[-1].body) > 2:
        return ""
    asked = [call for call in calls if _name_of(call) not in ("sleep", "print")]
    return ast.unparse(asked[0]) if asked else ""


def makes_input(frames: tuple[str, ...]) -> bool:
    """Whether a call on a stack (innermost frame first) returns what other calls of its loop take:
    ``x = load()`` and ``model(x)``, however long ``load`` sleeps. What is only printed is none;
    what a queue or a pool gives is made elsewhere."""
    if any(_ELSEWHERE.search(frame) for frame in frames):
        return False
    return any(_is_used_later(frame_place(frame, None)) for frame in frames if own_frame(frame))


@lru_cache(maxsize=1024)
def _is_used_later(place: Place | None) -> bool:
    around = list(_statements_around(place))
    loops = [node for node in around if isinstance(node, ast.For | ast.While)]
    made = around[-1] if loops else None
    if not isinstance(made, ast.Assign) or not _nodes(made.value, ast.Call):
        return False
    names = {one.id for target in made.targets for one in _nodes(target, ast.Name)}
    calls = [call for call in _nodes(loops[-1], ast.Call) if _name_of(call) not in _TELLS]
    taken = {one.id for call in calls for arg in call.args for one in _nodes(arg, ast.Name)}
    return bool(names & taken)


def _nodes(inside: ast.AST, kind: type[N]) -> list[N]:
    return [node for node in ast.walk(inside) if isinstance(node, kind)]


def _name_of(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]
