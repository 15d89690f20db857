"""What the causes inside loader workers share: one rank's ``LoaderWorkers`` and their evidence."""

from __future__ import annotations

from collections import Counter

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_stalls, predict_removal
from whyidle.analysis.loader_workers import LoaderWorkers
from whyidle.analysis.step_scope import StepScope
from whyidle.analysis.worker_capacity import most_workers
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


def workers_of(facts: Facts, *kinds: str) -> LoaderWorkers | None:
    """The workers of a rank, where the step waits for them because of one of ``kinds``."""
    return facts.workers if facts.workers.wait_kind in kinds else None


def wait_evidence(workers: LoaderWorkers, *columns: str) -> tuple[Evidence, ...]:
    """The wait, a batch's cost, and some of its parts."""
    made = len(workers.batches_made)
    found = [
        make_evidence(
            "device idle while a worker was awaited, share of step",
            workers.waiting_share,
            "ratio",
            samples=len(workers.batches_taken),
        ),
        make_evidence("workers", workers.count, None, source="DataLoader"),
        make_evidence(
            "time a worker takes for a batch", workers.batch_time, "s", samples=made, source=SOURCE
        ),
    ]
    for column in columns:
        quantity, unit = _ASKED[column]
        value = workers.mean_of(column)
        found.append(make_evidence(quantity, value, unit, samples=made, source=SOURCE))
    return (*found, *hottest_line_evidence(workers))


def hottest_line_evidence(workers: LoaderWorkers) -> tuple[Evidence, ...]:
    """The line that workers are at most often."""
    if workers.hottest_line is None:
        return ()
    place, share = workers.hottest_line
    text = f"{place.file}({place.line}): {place.function}"
    return (
        make_evidence("workers are most often at", text, None, source="stacks"),
        make_evidence("its share of the looks", share, "ratio", source="stacks"),
    )


OPENING_S = 25e-6
"""CPU time of opening, reading and closing a small file (8 us) and of being woken from a wait
(18 us), measured with Python 3.11 on a virtual machine"""

WOKEN = (0.0, 0.5, 1.0)
"""share of a worker's waits for a core that come with waking from a wait for storage, and go with
it: careful, expected, hopeful. The others, in the midst of its work, are not told apart"""


def at_hand(workers: LoaderWorkers, rate: float, careful: float) -> tuple[float, float, float]:
    """The share of the waiting for storage that goes where samples lie in sequence: no request
    waits any more, and the bytes come at a ``rate`` (bytes/s) for all workers together.
    ``careful``: no more than this at the careful end: they may wait for something else."""
    bytes_s = workers.mean_of("chars") * workers.count / rate
    gone = 1.0 - min(1.0, bytes_s / max(workers.storage_wait, 1e-9))
    return min(careful, gone), gone, 1.0


def for_storage(
    workers: LoaderWorkers,
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
    opening = min(opens * OPENING_S, workers.mean_of("cpu"))
    gains = [
        _predict_saving(
            workers,
            share * workers.storage_wait + woken * workers.mean_of("delay"),
            share * opening,
        )
        for share, woken in zip(removed, WOKEN, strict=True)
    ]
    careful, expected, hopeful = gains
    return Proof(
        headline=headline,
        low=min(gains),
        high=workers.waiting_share,
        predicted=from_stalls((careful, expected, hopeful), method),
        evidence=evidence,
        confidence=0.85,
        where=workers.costliest_places,
        facts=InputFacts(
            workers=workers.best_workers if workers.best_workers > workers.count else None,
            was=workers.count,
            by_workers=_by_workers(workers),
            bound=workers.loads_bound,
            most_workers=most_workers(workers.facts, workers.count, waits=True),
            opened=workers.mean_of("opens") / max(workers.mean_of("samples"), 1.0),
            later_epoch=workers.later_epoch is not None,
        ),
    )


def _predict_saving(workers: LoaderWorkers, waited: float, worked: float) -> float:
    """Share of the step won where a batch waits and works so much less, s."""
    made = workers.batch_time + workers.pickle_time - waited - worked
    work = max(0.0, workers.mean_of("process_cpu") - worked)
    return workers.waiting_share - workers.remaining_share(
        workers.predict_stall(workers.count, made, work)
    )


def _by_workers(workers: LoaderWorkers) -> Predicted | None:
    """What more of them bring: their waits overlap, unless the storage is at its limit."""
    if workers.best_workers <= workers.count:
        return None
    won = workers.waiting_share - workers.remaining_share(
        workers.predict_stall(workers.best_workers)
    )
    return from_stalls((0.0, won, won), f"P1: {workers.best_workers} workers wait at a time")


CHEAPER = (1 / 3, 1 / 2, 1.0)
"""share of the CPU time that cheaper preparation saves: careful, expected, hopeful"""


def made_cheaper(share: float) -> Predicted:
    """What it brings to make samples more cheaply, whose making holds up this share of the step."""
    low, expected, high = (saved * share for saved in CHEAPER)
    return predict_removal(low, high, "P1: cheaper preparation", expected)


def prepared_once(share: float) -> Predicted:
    """What it brings to keep samples whose making holds up this share of the step."""
    low, expected, high = ((1.0 - kept) * share for kept in KEPT)
    return predict_removal(low, high, "P1: prepared once", expected)


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
    return predict_removal(low, high, LEADS, expected)


def leading_once_by_workers(workers: LoaderWorkers) -> Predicted | None:
    """The same of samples that loader workers make, as many as there are."""
    stay = workers.loader.persistent and workers.loader.transforms
    if not _led_again(workers.facts) and not (stay and workers.later_epoch is not None):
        return None
    gains = []
    for part, kept in zip(LEADING, KEPT, strict=True):
        saved = part * (1.0 - kept) * workers.mean_of("cpu")
        made = max(workers.batch_time + workers.pickle_time - saved, 0.0)
        gains.append(
            _predict_cached(workers, made, max(workers.mean_of("process_cpu") - saved, 0.0))
        )
    return from_stalls((gains[0], gains[1], gains[2]), LEADS)


def _predict_cached(workers: LoaderWorkers, made: float, work: float) -> float:
    stall = workers.predict_stall(workers.count, made, work)
    return max(0.0, workers.waiting_share - workers.remaining_share(stall))


def _led_again(facts: Facts | StepScope) -> bool:
    """Whether a dataset with a chain of transforms was seen to be gone through a second time."""
    loading = facts.timeline.loading
    begun = Counter(each.loader for each in loading.iterators)
    return any(begun[i] > 1 and one.transforms for i, one in enumerate(loading.loaders))
