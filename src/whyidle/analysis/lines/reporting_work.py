"""Work of each step that only reports: metrics, norms, logs and pictures."""

from __future__ import annotations

from msgspec import Struct

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import EMPTY, Intervals
from whyidle.analysis.lines.line_purposes import quote_line
from whyidle.analysis.lines.log_preparation import find_log_preparation
from whyidle.analysis.lines.step_by_line import StepLine
from whyidle.analysis.steps.step_growth import find_growth
from whyidle.model.buckets import Bucket
from whyidle.model.cause import MOST_PLACES, MOSTLY
from whyidle.model.diagnosis import Place


class ReportingWork(Struct, frozen=True):
    """Lines that only report, those with most time first."""

    lines: list[StepLine]
    spans: Intervals
    time: int
    """ns in all steps in scope"""
    bucket: Bucket
    """where most of it lies"""
    text: str
    """source of the first place"""
    places: tuple[Place, ...]


def find_reporting_work(facts: Facts) -> ReportingWork | None:
    """Return such work, without what is rare already and a line whose time grows; None if it mostly
    waits or is a writer's, which is a cause of its own."""
    growth = find_growth(facts)
    lines = [line for line in facts.lines if line.only_reports and not line.rare]
    lines = [line for line in lines if growth is None or line is not growth.line]
    spans = EMPTY
    for line in lines:
        spans = spans | line.sampled_time
    apart = facts.time_of("logging", "blocked", "checkpoint") | find_log_preparation(facts)
    if not lines or (spans & apart).total > MOSTLY * spans.total:
        return None
    places = _places_of(lines)
    buckets: tuple[Bucket, ...] = ("compute", "host", "interruption")
    return ReportingWork(
        lines=lines,
        spans=spans,
        time=sum(line.time for line in lines),
        bucket=max(buckets, key=lambda name: (spans & facts.time_of(name)).total),
        text=quote_line(facts.timeline.sources, next(iter(places), None), lines[0].purpose),
        places=places,
    )


def _places_of(lines: list[StepLine]) -> tuple[Place, ...]:
    """The lines themselves, then the lines of the training loop that lead to them; none of what a
    trainer reports by itself, whose line in the program is the training."""
    lines = [line for line in lines if not line.by_trainer]
    own = [line.place for line in lines if line.place is not None]
    loop = [line.caller for line in lines if line.caller is not None]
    return tuple(dict.fromkeys([*own, *loop]))[:MOST_PLACES]
