"""What the causes inside loader workers share: one rank's ``Workers`` and their evidence."""

from __future__ import annotations

from whyidle.analysis.evidence import measured
from whyidle.analysis.facts import Facts
from whyidle.analysis.workers import Workers
from whyidle.model.diagnosis import Evidence

SOURCE = "loader workers"
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
