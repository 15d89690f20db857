"""What the causes inside loader workers share: one rank's ``Workers`` and their evidence."""

from __future__ import annotations

from collections import Counter

from whyidle.analysis.evidence import measured
from whyidle.analysis.facts import Facts
from whyidle.analysis.fitting import most_workers
from whyidle.analysis.forecast import from_stalls, remove
from whyidle.analysis.scoped import Scoped
from whyidle.analysis.workers import Workers
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Evidence, Predicted
from whyidle.model.proof_facts import InputFacts

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


OPENING_S = 25e-6
"""CPU time of opening, reading and closing a small file (8 us) and of being woken from a wait
(18 us), measured with Python 3.11 on a virtual machine"""

WOKEN = (0.0, 0.5, 1.0)
"""share of a worker's waits for a core that come with waking from a wait for storage, and go with
it: careful, expected, hopeful. The others, in the midst of its work, are not told apart"""


def at_hand(workers: Workers, rate: float, careful: float) -> tuple[float, float, float]:
    """The share of the waiting for storage that goes where samples lie in sequence: no request
    waits any more, and the bytes come at a ``rate`` (bytes/s) for all workers together.
    ``careful``: no more than this at the careful end: they may wait for something else."""
    bytes_s = workers.mean("chars") * workers.count / rate
    gone = 1.0 - min(1.0, bytes_s / max(workers.storage, 1e-9))
    return min(careful, gone), gone, 1.0


def for_storage(
    workers: Workers,
    headline: str,
    *,
    removed: tuple[float, float, float],
    method: str,
    evidence: tuple[Evidence, ...],
    opens: float = 0.0,
) -> Proof:
    """A proof that workers wait for storage, whichever it is.

    Args:
        workers: those of the rank.
        headline: what is said first.
        removed: the share of their waiting for storage that the fix removes: careful, expected,
            hopeful.
        method: how the prediction was made.
        evidence: numbers that tell this cause from its siblings.
        opens: files of a batch that need not be opened any more, with their CPU time.
    """
    opening = min(opens * OPENING_S, workers.mean("cpu"))
    gains = [
        _won(workers, share * workers.storage + woken * workers.mean("delay"), share * opening)
        for share, woken in zip(removed, WOKEN, strict=True)
    ]
    careful, expected, hopeful = gains
    return Proof(
        headline=headline,
        low=min(gains),
        high=workers.waiting,
        predicted=from_stalls((careful, expected, hopeful), method),
        evidence=evidence,
        confidence=0.85,
        where=workers.where,
        facts=InputFacts(
            workers=workers.best if workers.best > workers.count else None,
            was=workers.count,
            by_workers=_by_workers(workers),
            bound=workers.loads_bound,
            most_workers=most_workers(workers.facts, workers.count, waits=True),
            opened=workers.mean("opens") / max(workers.mean("samples"), 1.0),
            later_epoch=workers.later_epoch is not None,
        ),
    )


def _won(workers: Workers, waited: float, worked: float) -> float:
    """Share of the step won where a batch waits and works so much less, s."""
    made = workers.wall + workers.pickle - waited - worked
    work = max(0.0, workers.mean("process_cpu") - worked)
    return workers.waiting - workers.remaining(workers.stall(workers.count, made, work))


def _by_workers(workers: Workers) -> Predicted | None:
    """What more of them bring: their waits overlap, unless the storage is at its limit."""
    if workers.best <= workers.count:
        return None
    won = workers.waiting - workers.remaining(workers.stall(workers.best))
    return from_stalls((0.0, won, won), f"P1: {workers.best} workers wait at a time")


CHEAPER = (1 / 3, 1 / 2, 1.0)
"""share of the CPU time that cheaper preparation saves: careful, expected, hopeful"""


def made_cheaper(share: float) -> Predicted:
    """What it brings to make samples more cheaply, whose making holds up this share of the step."""
    low, expected, high = (saved * share for saved in CHEAPER)
    return remove(low, high, "P1: cheaper preparation", expected)


def prepared_once(share: float) -> Predicted:
    """What it brings to keep samples whose making holds up this share of the step."""
    low, expected, high = ((1.0 - kept) * share for kept in KEPT)
    return remove(low, high, "P1: prepared once", expected)


LEADING = (0.0, 0.5, 1.0)
"""share of the time to make a sample that passes before its first random transform: no look tells
which transforms are random, so anything is possible, and half of it is expected"""
LEADS = "P1: what leads to the first random transform prepared once, taken as half of each sample"


def leading_once(facts: Facts, share: float) -> Predicted | None:
    """What it brings to keep what enters the first random transform of samples whose making holds
    up this share of the step; None where no chain of transforms, or no second epoch, was seen."""
    if not _led_again(facts):
        return None
    low, expected, high = (
        part * (1.0 - kept) * share for part, kept in zip(LEADING, KEPT, strict=True)
    )
    return remove(low, high, LEADS, expected)


def leading_once_by_workers(workers: Workers) -> Predicted | None:
    """The same of samples that loader workers make, as many as there are."""
    stay = workers.loader.persistent and workers.loader.transforms
    if not _led_again(workers.facts) and not (stay and workers.later_epoch is not None):
        return None
    gains = []
    for part, kept in zip(LEADING, KEPT, strict=True):
        saved = part * (1.0 - kept) * workers.mean("cpu")
        made = max(workers.wall + workers.pickle - saved, 0.0)
        gains.append(_kept(workers, made, max(workers.mean("process_cpu") - saved, 0.0)))
    return from_stalls((gains[0], gains[1], gains[2]), LEADS)


def _kept(workers: Workers, made: float, work: float) -> float:
    stall = workers.stall(workers.count, made, work)
    return max(0.0, workers.waiting - workers.remaining(stall))


def _led_again(facts: Facts | Scoped) -> bool:
    """Whether a dataset with a chain of transforms was seen to be gone through a second time."""
    loading = facts.timeline.loading
    begun = Counter(each.loader for each in loading.iterators)
    return any(begun[i] > 1 and one.transforms for i, one in enumerate(loading.loaders))
