"""What the causes inside loader workers share: one rank's ``Workers`` and their evidence."""

from __future__ import annotations

from whyidle.analysis.evidence import measured
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains, remove
from whyidle.analysis.workers import Workers
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Evidence, Predicted

SOURCE = "loader workers"
KEPT = (0.5, 0.1, 0.0)
"""share of the time to make samples that a kept form still costs: careful, expected, hopeful"""
_ASKED: dict[str, tuple[str, str | None]] = {
    "cpu": ("of it working", "s"),
    "delay": ("of it waiting for a core", "s"),
    "collate": ("of it collating", "s"),
    "opens": ("files opened per batch", None),
    "chars": ("bytes read per batch", "bytes"),
    "read": ("of them from storage", "bytes"),
}


def workers_of(facts: Facts, *kinds: str) -> Workers | None:
    """The workers of a rank, where the step waits for them because of one of ``kinds``."""
    return facts.workers if facts.workers.kind in kinds else None


def evidence(workers: Workers, *columns: str) -> tuple[Evidence, ...]:
    """The wait, a batch's cost, and some of its parts."""
    made = len(workers.made)
    found = [
        measured(
            "device idle while a worker was awaited, share of step",
            workers.waiting,
            "ratio",
            samples=len(workers.takes),
        ),
        measured("workers", workers.count, None, source="DataLoader"),
        measured("time a worker takes for a batch", workers.wall, "s", samples=made, source=SOURCE),
    ]
    for column in columns:
        quantity, unit = _ASKED[column]
        value = workers.mean(column)
        found.append(measured(quantity, value, unit, samples=made, source=SOURCE))
    return (*found, *hot(workers))


def hot(workers: Workers) -> tuple[Evidence, ...]:
    """The line that workers are at most often."""
    if workers.hot is None:
        return ()
    place, share = workers.hot
    text = f"{place.file}({place.line}): {place.function}"
    return (
        measured("workers are most often at", text, None, source="stacks"),
        measured("its share of the looks", share, "ratio", source="stacks"),
    )


def for_storage(
    workers: Workers,
    headline: str,
    *,
    removed: tuple[float, float, float],
    method: str,
    evidence: tuple[Evidence, ...],
) -> Proof:
    """A proof that workers wait for storage, whichever it is.

    Args:
        workers: those of the rank.
        headline: what is said first.
        removed: the share of their waiting for storage that the fix removes: careful, expected,
            hopeful.
        method: how the prediction was made.
        evidence: numbers that tell this cause from its siblings.
    """
    made = workers.wall + workers.pickle
    stalls = [workers.stall(workers.count, made - share * workers.storage) for share in removed]
    careful, expected, hopeful = (workers.waiting - workers.remaining(each) for each in stalls)
    return Proof(
        headline=headline,
        low=min(careful, expected, hopeful),
        high=workers.waiting,
        predicted=from_gains((careful, expected, hopeful), method),
        evidence=evidence,
        confidence=0.85,
        where=workers.where,
        facts={
            "workers": workers.best if workers.best > workers.count else None,
            "was": workers.count,
        },
    )


def prepared_once(share: float) -> Predicted:
    """What it brings to keep samples whose making holds up this share of the step."""
    low, expected, high = ((1.0 - kept) * share for kept in KEPT)
    return remove(low, high, "P1: prepared once", expected)
