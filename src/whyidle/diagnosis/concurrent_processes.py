"""Processes of one command that train at the same time on one host's CPU: ranks, Hogwild workers,
several jobs of one script. Each process only knows its own threads, but they share the cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from whyidle.model.cause import MOSTLY
from whyidle.model.process_facts import Neighbours
from whyidle.model.timeline import Timeline


def note_concurrent(timelines: Sequence[Timeline]) -> list[Timeline]:
    """Set ``neighbours`` of each timeline: how many other processes train on the CPU at the same
    time, and their number of operator threads."""
    return [
        _with_concurrent(each, [one for one in timelines if one is not each]) for each in timelines
    ]


def _with_concurrent(timeline: Timeline, others: Sequence[Timeline]) -> Timeline:
    meanwhile = (other for other in others if _overlaps(timeline, other))
    threads = [other.process.operator_threads or 1 for other in meanwhile]
    if not threads:
        return timeline
    return replace(timeline, neighbours=Neighbours(len(threads), sum(threads)))


def _overlaps(timeline: Timeline, other: Timeline) -> bool:
    (begin, end), (began, ended) = _active_span(timeline), _active_span(other)
    together = min(end, ended) - max(begin, began)
    here = timeline.hostname == other.hostname
    return here and other.info.kind == "cpu" and together > MOSTLY * (end - begin)


def _active_span(timeline: Timeline) -> tuple[int, int]:
    begin = timeline.process.first_step or timeline.base_ns
    return begin, timeline.base_ns + int(timeline.host.end.max(initial=0))
