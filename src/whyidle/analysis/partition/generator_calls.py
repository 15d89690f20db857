"""Time in generators of the user's own code that the training loop takes its batches from."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.intervals import union_of
from whyidle.analysis.lines.source_lines import frame_place
from whyidle.analysis.lines.source_statements import parse_source
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind, Timeline

_MANAGER = "contextmanager"
Functions = dict[tuple[str, str], list[tuple[int, int]]]


class GeneratorCalls:
    """The user's generators in a process's stack samples. One in which the optimizer steps is the
    training loop itself; one that a model calls is a part of the model."""

    def __init__(self, timeline: Timeline) -> None:
        host = timeline.host
        self._functions = _generators_in(timeline.sources)
        self._vocabulary = timeline.vocabulary
        self.rows: I64 = np.empty(0, np.int64)
        """stack samples inside generators that batches are taken from"""
        if not self._functions:
            return
        rows = np.flatnonzero((host.detail >= 0) & (host.kind != HostKind.ANNOTATION))
        details = host.detail[rows]
        found = {int(one): self._find(timeline.details[one].stack) for one in np.unique(details)}
        steps = timeline.rows_of(Role.OPTIMIZER_CALL)
        updating = union_of(host.start[steps], host.end[steps]).contains_times(host.start[rows])
        training = {found[int(one)][0] for one in details[updating]}
        taken = [found[int(one)][0] not in {None, *training} for one in details]
        self.rows = rows[np.array(taken, dtype=bool)]

    def inner_frames(self, stack: str) -> str:
        """Return the frames of a stack up to its generator; empty if it is in none."""
        name, depth = self._find(stack)
        return ";".join(stack.split(";")[: depth + 1]) if name else ""

    def _find(self, stack: str) -> tuple[tuple[str, str] | None, int]:
        """The innermost generator of a stack that no model calls, and the number of its frame."""
        frames = stack.split(";")
        for depth, frame in enumerate(frames):
            place = frame_place(frame, None)
            if place is None or place.line is None:
                continue
            name = place.file or "", place.function or ""
            if any(low <= place.line <= high for low, high in self._functions.get(name, ())):
                modelled = any(self._is_model(caller) for caller in frames[depth + 1 :])
                return (None if modelled else name), depth
        return None, 0

    def _is_model(self, frame: str) -> bool:
        return self._vocabulary.plays(Role.COMPUTE_FRAME, frame)


def _generators_in(sources: Mapping[str, str]) -> Functions:
    found: Functions = {}
    for file, text in sources.items():
        if "yield" in text:
            for node in _generator_functions(text):
                lines = node.lineno, node.end_lineno or node.lineno
                found.setdefault((file, node.name), []).append(lines)
    return found


def _generator_functions(text: str) -> Iterator[ast.FunctionDef]:
    tree = parse_source(text)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef) and _yields(node):
            managed = any(_MANAGER in ast.unparse(one) for one in node.decorator_list)
            if not managed:
                yield node


def _yields(function: ast.FunctionDef) -> bool:
    """Whether the function itself yields, rather than one inside it."""
    nodes: list[ast.AST] = [*function.body]
    while nodes:
        node = nodes.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            nodes += ast.iter_child_nodes(node)
    return False
