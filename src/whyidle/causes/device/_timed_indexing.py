"""Gradients of indexing in watched jobs on the CPU, timed by the probe."""

from __future__ import annotations

import ast
from typing import Final, NamedTuple

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import EMPTY, union_of
from whyidle.analysis.lines.source_statements import called_name, parse_source
from whyidle.analysis.lines.step_by_line import StepLine
from whyidle.analysis.steps.forecast import from_gains
from whyidle.model.cause import NOTICEABLE, Proof
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import DeviceFacts
from whyidle.model.purposes import Purpose
from whyidle.model.roles import Role

LOOP: Final = 8
"""fewest parts in one pass that are a loop's; a model takes a few parts of tensors outside of one
(the last position, halves of a projection)"""
REMOVED: Final = (0.6, 0.95, 1.0)
"""share of this time that is saved (low, expected, high): sparse gradients are sorted and summed by
row, and a part taken once still has a gradient"""
TABLES: Final = frozenset({"Embedding", "EmbeddingBag"})
MOST_PLACES = 3


class _Share(NamedTuple):
    """Shares of the step (0-1)."""

    tables: float
    """gradients of lookups in tables"""
    updates: float
    """updates of the rows of these tables"""
    parts: float
    """gradients of parts, with their loop's if one call could replace it"""
    lines: float
    """lines of that loop"""

    @property
    def total(self) -> float:
        return min(1.0, sum(self))


def prove_timed_indexing(facts: Facts) -> Proof | None:
    """Prove gradients of indexing that the probe has timed."""
    if not facts.timeline.process.indexing:
        return None
    loops = _indexing_loops(facts)
    share = _divide(facts, loops)
    if share.total * REMOVED[0] < NOTICEABLE:
        return None
    by_table = share.tables + share.updates >= share.parts + share.lines
    where = _table_lines(facts) if by_table else _places_of(facts, loops)
    gains = [part * share.total for part in REMOVED]
    what = "lookups in large tables" if by_table else "parts of tensors, taken one by one,"
    at = f" ({(where[0].file or '').rpartition('/')[2]}:{where[0].line})" if where else ""
    return Proof(
        headline=f"Gradients of {what} are mostly zeros{at}: "
        f"{format_duration(share.total * facts.step_s)} of each step",
        low=gains[0],
        high=gains[2],
        predicted=from_gains(
            (gains[0], gains[1], gains[2]), "the step without zeros, and without their updates"
        ),
        evidence=_indexing_evidence(facts, share),
        confidence=0.85 if where else 0.6,
        where=where[:MOST_PLACES],
        facts=DeviceFacts(table=by_table, parts=not by_table),
    )


def _divide(facts: Facts, loops: list[StepLine]) -> _Share:
    """Shares of the step. Sums over all timed passes: filling is fast in some of them, and in
    others waits for new memory."""
    timed, host = facts.timeline.process.indexing, facts.timeline.host
    passes = max(sum(one.pass_ns for one in timed), 1)
    calls = {
        role: facts.share_of(union_of(host.start[rows], host.end[rows]))
        for role in (Role.BACKWARD, Role.OPTIMIZER)
        for rows in (facts.timeline.rows_of(role),)
    }
    is_loop = max(one.parts for one in timed) >= LOOP
    spans = EMPTY
    for line in loops if is_loop else ():
        spans = spans | line.sampled_time
    of_parts = sum(one.among_ns if loops else one.parts_ns for one in timed) if is_loop else 0
    return _Share(
        tables=calls[Role.BACKWARD] * sum(one.tables_ns for one in timed) / passes,
        updates=calls[Role.OPTIMIZER] * _share_of_update(facts),
        parts=calls[Role.BACKWARD] * of_parts / passes,
        lines=facts.share_of(spans),
    )


def _share_of_update(facts: Facts) -> float:
    """The tables' part of the elements that the optimizer updates; 0 where it is not known."""
    process = facts.timeline.process
    optimizers = [process.optimizer, *process.optimizers.values()]
    elements = sum(one.elements for one in optimizers if one is not None)
    tables = max(one.table_elements for one in process.indexing)
    return min(1.0, tables / elements) if elements else 0.0


def _indexing_loops(facts: Facts) -> list[StepLine]:
    """Lines in loops that one call could replace, in which something is indexed."""
    return [
        line
        for line in facts.lines
        if line.loop is not None
        and line.purpose in (Purpose.FORWARD, Purpose.LOSS, Purpose.OTHER)
        and _indexes(facts, line.place)
    ]


def _places_of(facts: Facts, loops: list[StepLine]) -> tuple[Place, ...]:
    """Lines of such loops; without one, those of the model or the loss that index."""
    model = [
        line
        for line in facts.lines
        if line.purpose in (Purpose.FORWARD, Purpose.LOSS) and _indexes(facts, line.place)
    ]
    return tuple(dict.fromkeys(line.place for line in loops or model if line.place))


def _indexes(facts: Facts, place: Place | None) -> bool:
    tree = parse_source(facts.timeline.sources.get(place.file or "", "")) if place else None
    return tree is not None and any(
        isinstance(node, ast.Subscript) and place is not None and node.lineno == place.line
        for node in ast.walk(tree)
    )


def _table_lines(facts: Facts) -> tuple[Place, ...]:
    """The lines of the stored source that make a table with dense gradients."""
    return tuple(
        Place(file=file, line=node.lineno, function=None, rank=facts.rank)
        for file, text in facts.timeline.sources.items()
        if (tree := parse_source(text)) is not None
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and called_name(node) in TABLES and not _is_sparse(node)
    )


def _is_sparse(call: ast.Call) -> bool:
    return any(word.arg == "sparse" for word in call.keywords)


def _indexing_evidence(facts: Facts, share: _Share) -> tuple[Evidence, ...]:
    timed = facts.timeline.process.indexing
    filled, read = (sum(getattr(one, name) for one in timed) for name in ("filled", "read"))
    listed = (
        ("gradients of lookups, share of step", share.tables, "ratio"),
        ("updates of their tables, share of step", share.updates, "ratio"),
        ("gradients of parts, share of step", share.parts, "ratio"),
        ("elements of these gradients per element that was read", filled / max(read, 1), None),
    )
    return tuple(
        make_evidence(name, round(value, 4), unit, samples=len(timed), source="timed backward pass")
        for name, value, unit in listed
        if value
    )
