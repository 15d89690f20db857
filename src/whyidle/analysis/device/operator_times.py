"""The time of each operator in a step without the operators that it calls, for jobs on the CPU. The
assumed cost of recording each is subtracted."""

from __future__ import annotations

from typing import Literal

import numpy as np
from msgspec import Struct

from whyidle.analysis.arrays import F64, I64
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.recording_overhead import OP_COST_S
from whyidle.analysis.steps.step_scope import StepScope
from whyidle.model.roles import Role

Phase = Literal["forward", "backward", "optimizer"]


class OperatorTime(Struct, frozen=True):
    """All calls of one operator in one phase of the step. ``share`` is of all operators' time."""

    name: str
    phase: Phase
    group: str
    """group as for kernels"""
    count: int
    total_s: float
    share: float


def operator_times(facts: StepScope) -> list[OperatorTime]:
    """Return the operators in scope with their own time, the largest first."""
    host, names = facts.timeline.host, facts.timeline.names
    rows, own_s = _in_scope(facts)
    if not len(rows):
        return []
    phase = _step_phase(facts, host.start[rows])
    key = host.name[rows].astype(np.int64) * 3 + phase
    keys, index, counts = np.unique(key, return_inverse=True, return_counts=True)
    totals = np.bincount(index, weights=own_s)
    total = float(totals.sum()) or 1.0
    return [
        OperatorTime(
            name=names[int(keys[i]) // 3],
            phase=_PHASES[int(keys[i]) % 3],
            group=facts.timeline.operator(int(keys[i]) // 3).group,
            count=int(counts[i]),
            total_s=float(totals[i]),
            share=float(totals[i]) / total,
        )
        for i in np.argsort(-totals, kind="stable")
    ]


def own_times(facts: StepScope) -> tuple[I64, F64, list[str]]:
    """Return operators in scope by start per thread: host rows, own seconds, groups."""
    host, operator = facts.timeline.host, facts.timeline.operator
    rows, own_s = _in_scope(facts)
    order = np.lexsort((host.start[rows], host.thread[rows]))
    groups = {int(name): operator(int(name)).group for name in np.unique(host.name[rows])}
    return rows[order], own_s[order], [groups[int(name)] for name in host.name[rows[order]]]


def _in_scope(facts: StepScope) -> tuple[I64, F64]:
    """Operators in scope without the marks around them, and their own seconds."""
    host, marks = facts.timeline.host, facts.timeline.rows_of(Role.FRAMEWORK_MARK)
    rows, own = _own_ns(facts)
    keep = facts.scope.contains_times(host.start[rows]) & ~np.isin(rows, marks)
    return rows[keep], np.maximum(own[keep] / 1e9 - OP_COST_S, 0.0)


_PHASES: tuple[Phase, ...] = ("forward", "backward", "optimizer")


def _own_ns(facts: StepScope) -> tuple[I64, I64]:
    operators, lengths = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for rows, nesting in facts.ops[1].values():
        length = nesting.end - nesting.start
        own = length.copy()
        for outer, inner in zip(nesting.levels, nesting.levels[1:], strict=False):
            place = np.searchsorted(nesting.start[outer], nesting.start[inner], side="right") - 1
            np.subtract.at(own, outer[place], length[inner])
        operators.append(rows)
        lengths.append(np.maximum(own, 0))
    return np.concatenate(operators), np.concatenate(lengths)


def _step_phase(facts: StepScope, times: I64) -> I64:
    optimizer = _spans_named(facts, Role.OPTIMIZER_CALL)
    backward = _spans_named(facts, Role.BACKWARD_NODE)
    return np.where(
        optimizer.contains_times(times), 2, np.where(backward.contains_times(times), 1, 0)
    )


def _spans_named(facts: StepScope, role: Role) -> Intervals:
    host, rows = facts.timeline.host, facts.rows_of(role)
    return union_of(host.start[rows], host.end[rows])
