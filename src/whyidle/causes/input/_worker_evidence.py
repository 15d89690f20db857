"""Evidence and predictions that causes about loader workers share."""

from __future__ import annotations

from collections import Counter
from typing import Any

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.input.loader_workers import LoaderWorkers
from whyidle.analysis.input.sample_work import SampleWork
from whyidle.analysis.input.worker_capacity import most_workers
from whyidle.analysis.steps.forecast import predict_removal, predict_stalls
from whyidle.analysis.steps.step_scope import StepScope
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Evidence, Predicted
from whyidle.model.proof_facts import InputFacts

SOURCE = "loader workers"
CACHED_COST = (0.5, 0.1, 0.0)
"""share of a sample's cost that stays when it is cached (low, expected, high gain)"""
_COLUMNS: dict[str, tuple[str, str | None]] = {
    "cpu": ("of it, working", "s"),
    "delay": ("of it, waiting for a core", "s"),
    "collate": ("of it, collating", "s"),
    "opens": ("files opened per batch", None),
    "chars": ("bytes read per batch", "bytes"),
    "read": ("of them, from storage", "bytes"),
}


def workers_of(facts: Facts, *kinds: str) -> LoaderWorkers | None:
    """The workers of a rank, if the step waits for them because of one of ``kinds``."""
    return facts.workers if facts.workers.wait_kind in kinds else None


def wait_evidence(workers: LoaderWorkers, *columns: str) -> tuple[Evidence, ...]:
    """The wait, the cost of a batch, and some of its parts."""
    made = len(workers.batches_made)
    share, taken = workers.waiting_share, len(workers.batches_taken)
    evidence = [
        make_evidence("waiting for workers, share of step", share, "ratio", samples=taken),
        make_evidence("workers", workers.count, None, source="DataLoader"),
        make_evidence("time per batch", workers.batch_time, "s", samples=made, source=SOURCE),
    ]
    for column in columns:
        quantity, unit = _COLUMNS[column]
        mean = workers.mean_of(column)
        evidence.append(make_evidence(quantity, mean, unit, samples=made, source=SOURCE))
    return (*evidence, *hottest_line_evidence(workers))


def hottest_line_evidence(workers: LoaderWorkers) -> tuple[Evidence, ...]:
    """The line at which stack samples find workers most often."""
    if workers.hottest_line is None:
        return ()
    place, share = workers.hottest_line
    text = f"{place.file}({place.line}): {place.function}"
    return (
        make_evidence("line with most samples of workers", text, None, source="stacks"),
        make_evidence("its share of the samples", share, "ratio", source="stacks"),
    )


OPENING_S = 25e-6
"""CPU time of opening, reading and closing a small file (8 us) and of waking from a wait (18 us),
measured with Python 3.11 on a virtual machine"""

WOKEN = (0.0, 0.5, 1.0)
"""share of a worker's waits for a core that follow a wait for storage and end with it: lower bound,
expected, upper bound. The recording cannot tell them apart"""


def local_read_shares(
    workers: LoaderWorkers, rate: float, careful: float
) -> tuple[float, float, float]:
    """The share of the wait for storage that vanishes with sequential reads. No request waits, and
    bytes arrive at a ``rate`` (bytes/s) for all workers together. ``careful`` limits the lower
    bound, because workers may wait for something else."""
    bytes_s = workers.mean_of("chars") * workers.count / rate
    gone = 1.0 - min(1.0, bytes_s / max(workers.storage_wait, 1e-9))
    return min(careful, gone), gone, 1.0


def prove_storage_wait(
    workers: LoaderWorkers,
    headline: str,
    *,
    removed: tuple[float, float, float],
    method: str,
    evidence: tuple[Evidence, ...],
    opens: float = 0.0,
) -> Proof:
    """A proof that workers wait for storage.

    Args:
        workers: the workers of the rank.
        headline: the headline of the finding.
        removed: share of the wait for storage that the fix removes (low, expected, high).
        method: how the prediction was made.
        evidence: numbers that distinguish this cause from its siblings.
        opens: files per batch that need not be opened any more, with their CPU time.
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
        predicted=predict_stalls((careful, expected, hopeful), method),
        evidence=evidence,
        confidence=0.85,
        where=workers.costliest_places,
        facts=InputFacts(
            workers=workers.best_workers if workers.best_workers > workers.count else None,
            was=workers.count,
            by_workers=_predict_more_workers(workers),
            bound=workers.loads_bound,
            most_workers=most_workers(workers.facts, workers.count, waits=True),
            epoch_bytes=workers.epoch_bytes,
        ),
    )


def _predict_saving(workers: LoaderWorkers, waited: float, worked: float) -> float:
    """Share of the step gained if a batch needs ``waited`` and ``worked`` seconds less."""
    made = max(0.0, workers.batch_time + workers.pickle_time - waited - worked)
    work = max(0.0, workers.mean_of("process_cpu") - worked)
    return workers.waiting_share - workers.remaining_share(
        workers.predict_stall(workers.count, made, work)
    )


def _predict_more_workers(workers: LoaderWorkers) -> Predicted | None:
    """The gain of more workers, whose waits overlap unless the storage is at its limit."""
    if workers.best_workers <= workers.count:
        return None
    won = workers.waiting_share - workers.remaining_share(
        workers.predict_stall(workers.best_workers)
    )
    return predict_stalls((0.0, won, won), f"P1: {workers.best_workers} workers wait at a time")


CHEAPER = (1 / 3, 1 / 2, 1.0)
"""share of the CPU time that cheaper preprocessing saves: lower bound, expected, upper bound"""


def predict_cheaper_samples(share: float) -> Predicted:
    """The gain of cheaper preprocessing if making samples holds up this share of the step."""
    low, expected, high = (saved * share for saved in CHEAPER)
    return predict_removal(low, high, "P1: cheaper preprocessing", expected)


def predict_cached_samples(share: float) -> Predicted:
    """The gain of caching samples if making them holds up this share of the step."""
    low, expected, high = ((1.0 - kept) * share for kept in CACHED_COST)
    return predict_removal(low, high, "P1: cached samples", expected)


PREFIX = (0.0, 0.5, 1.0)
"""share of the time per sample before its first random transform. Unless the source of the dataset
shows it, anything is possible and half is expected"""


def describe_prefix(facts: Facts, work: SampleWork | None, share: float) -> dict[str, Any]:
    """Return the fields of ``InputFacts`` about caching the input of the first random transform if
    making samples holds up this share of the step. None without a second epoch, or where neither
    the source nor a chain of transforms shows that there is such an input."""
    if not _has_second_epoch(facts, work):
        return {}
    low, expected, high = (part * share for part in _prefix_parts(work))
    leading = predict_removal(low, high, _prefix_method(work), expected)
    return {"leading": leading, "random": work.random if work else ""}


def describe_worker_prefix(workers: LoaderWorkers, work: SampleWork | None) -> dict[str, Any]:
    """Return the same fields for samples that loader workers make."""
    stay = workers.loader.persistent and (workers.loader.transforms or (work and work.random))
    later = stay and workers.later_epoch is not None
    if not (later or _has_second_epoch(workers.facts, work)):
        return {}
    saved = [part * workers.mean_of("cpu") for part in _prefix_parts(work)]
    gains = [max(0.0, _predict_saving(workers, 0.0, each)) for each in saved]
    full = [workers.predict_on_full_cores(each) for each in saved]
    most = max(gains[1], full[1]), max(gains[2], full[2])
    leading = predict_stalls((gains[0], *most), _prefix_method(work))
    return {"leading": leading, "random": work.random if work else ""}


def _prefix_method(work: SampleWork | None) -> str:
    assumed = "" if work and work.random else ", assumed at half of each sample"
    return f"P1: cached before the first random transform{assumed}"


def _prefix_parts(work: SampleWork | None) -> list[float]:
    parts = (work.leading,) * 3 if work and work.random else PREFIX
    return [part * (1.0 - kept) for part, kept in zip(parts, CACHED_COST, strict=True)]


def _has_second_epoch(facts: Facts | StepScope, work: SampleWork | None) -> bool:
    loading = facts.timeline.loading
    begun = Counter(each.loader for each in loading.iterators)
    known = bool(work and work.random)
    return any(begun[i] > 1 and (one.transforms or known) for i, one in enumerate(loading.loaders))
