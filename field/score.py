"""What whyidle said of jobs, held against the truth."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from field.truth import Job
from field.watch import Outcome, Said

ALARM = 1.05
"""what promises more of a healthy job is a false alarm: issue and truth say 5 %"""
NEAR = 0.2
"""a prediction that is off by so much of the measured gain still tells the order of fixes"""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """How one job came out; what does not apply is None.

    Attributes:
        top1: whether the first finding is right.
        top3: whether one of the first three is.
        place: whether the first finding points at the right line.
        alarm: whether a finding promises something of a healthy job.
        removal: whether the removal that the first right finding predicts agrees with the
            measured gain; None where there is no such finding, or it predicts nothing.
    """

    job: str
    top1: bool | None = None
    top3: bool | None = None
    place: bool | None = None
    alarm: bool | None = None
    removal: bool | None = None


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a set of jobs: hits, and of how many."""

    top1: tuple[int, int]
    top3: tuple[int, int]
    place: tuple[int, int]
    alarm: tuple[int, int]
    removal: tuple[int, int]
    removal_of_all: tuple[int, int]


def mark_job(name: str, job: Job, outcome: Outcome) -> Mark:
    """Hold one outcome against its truth."""
    if job.healthy:
        return Mark(job=name, alarm=any(said.promised > ALARM for said in outcome.found))
    right = [is_right(job, said) for said in outcome.found]
    first = find_right(job, outcome)
    return Mark(
        job=name,
        top1=bool(right and right[0]),
        top3=any(right),
        place=bool(outcome.found and points_at(job, outcome.found[0])) if job.place else None,
        removal=agrees(first.removal, job.gain) if first and first.removal and job.gain else None,
    )


def find_right(job: Job, outcome: Outcome) -> Said | None:
    """The first finding that is right, if one is."""
    return next((said for said in outcome.found if is_right(job, said)), None)


def is_right(job: Job, said: Said) -> bool:
    """Whether a finding names the true cause, or points at the true line without a wrong cause."""
    return said.cause not in job.wrong and (said.cause in job.cause or points_at(job, said))


def points_at(job: Job, said: Said) -> bool:
    """Whether a finding points at a line that the truth names."""
    texts = (place.split(": ", 1)[1] for place in said.places)
    return bool(job.place) and any(re.search(job.place, text) for text in texts)


def agrees(removal: tuple[float, float, float], gain: float) -> bool:
    """Whether the measured gain lies in the predicted interval, or near the prediction."""
    speedup, low, high = removal
    return low <= gain <= high or abs(speedup - gain) <= NEAR * gain


def count(marks: Iterable[Mark]) -> Rates:
    """Hits of each kind."""
    every = list(marks)
    sick = [mark for mark in every if mark.alarm is None]
    removals = _hits(mark.removal for mark in sick)
    return Rates(
        top1=_hits(mark.top1 for mark in sick),
        top3=_hits(mark.top3 for mark in sick),
        place=_hits(mark.place for mark in sick),
        alarm=_hits(mark.alarm for mark in every),
        removal=removals,
        removal_of_all=(removals[0], len(sick)),
    )


def _hits(values: Iterable[bool | None]) -> tuple[int, int]:
    known = [value for value in values if value is not None]
    return sum(known), len(known)
