"""The sick job and the healthy one that every cause brings for its contract.

A test file of a cause declares them at module level, and the contract suite finds them there::

    PAIRS = {"graph-breaks": Pair(sick=lambda: train(4), healthy=lambda: train(1))}
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from whyidle.model.timeline import Timeline
from whyidle.testing.builder import Builder
from whyidle.testing.fleet import Fleet
from whyidle.testing.guest import Guest

BuiltJob = Builder | Guest | Fleet | Timeline | list[Timeline]


@dataclass(frozen=True, slots=True)
class Pair:
    """Functions that build a job on which the cause fires, and one that looks alike and on which
    it is silent."""

    sick: Callable[[], BuiltJob]
    healthy: Callable[[], BuiltJob]


def build_timelines(job: BuiltJob) -> list[Timeline]:
    """A built job as the recordings of its ranks."""
    if isinstance(job, Fleet):
        return job.timelines()
    if isinstance(job, Builder | Guest):
        return [job.timeline()]
    return job if isinstance(job, list) else [job]
