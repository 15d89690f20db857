"""The sick job and the healthy one that every cause brings for its contract.

A test file of a cause declares them at module level, and the contract suite finds them there::

    PAIRS = {"graph-breaks": Pair(sick=lambda: train(4), healthy=lambda: train(1))}
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from whyidle.model.timeline import Timeline
from whyidle.testing.builder import Builder
from whyidle.testing.rank_fleet import Fleet
from whyidle.testing.recorded_job import RecordedJob

BuiltJob = Builder | RecordedJob | Fleet | Timeline | list[Timeline]


@dataclass(frozen=True, slots=True)
class Pair:
    """Functions that build a job on which the cause fires, and a similar, healthy one."""

    sick: Callable[[], BuiltJob]
    healthy: Callable[[], BuiltJob]


def build_timelines(job: BuiltJob) -> list[Timeline]:
    """Return the recordings of a built job's ranks."""
    if isinstance(job, Fleet):
        return job.timelines()
    if isinstance(job, Builder | RecordedJob):
        return [job.timeline()]
    return job if isinstance(job, list) else [job]
