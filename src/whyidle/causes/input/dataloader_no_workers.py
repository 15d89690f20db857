"""The DataLoader works in the training process."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.batch_waits import (
    BatchWaits,
    find_batch_waits,
    handoff_s,
    launches_inside,
    tensors_s,
)
from whyidle.analysis.core_capacity import find_capacity, mostly_waits
from whyidle.analysis.decoding_libraries import decodes_media, storage_library
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import hidden_loading, may_cost
from whyidle.analysis.hottest_function import HottestFunction, hot_function
from whyidle.analysis.intervals import union_of
from whyidle.analysis.memory_pressure import waits_for_memory
from whyidle.analysis.prefetch_model import in_epochs
from whyidle.analysis.sampled_lines import lines_with_share
from whyidle.analysis.source_places import in_library
from whyidle.analysis.worker_batches import LEAST_SAMPLES
from whyidle.analysis.worker_capacity import most_workers
from whyidle.causes.input._worker_evidence import leading_once, made_cheaper, prepared_once
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import InputFacts
from whyidle.model.roles import Role

LEAST_SHARE = 0.01
"""share of the step below which the loader is not worth a word"""
MOST_PLACES = 3
LEFT = 0.1
"""share of the step that workers are expected to leave of the wait, from which on samples have to
become cheaper, too"""


@cause(
    "The DataLoader works in the training process",
    bucket="input",
    needs=("device_time", "loader_marks", "steps"),
    watched=("device_marks", "loader_marks", "steps"),
)
def dataloader_no_workers(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    ``DataLoader(num_workers=0)``: samples are read, decoded and collated by the same thread that
    launches the GPU's work, so the GPU waits for every batch.

    Why it costs
    ------------
    Loading and computing take turns instead of overlapping: the step lasts their sum, not their
    maximum.

    How it is detected
    ------------------
    The recording holds calls of ``_SingleProcessDataLoaderIter.__next__``, and the device is idle
    during them. Expected to be won is that idle time, less what handing a batch over from a
    worker costs, which grows with the number of its tensors and takes time of the cores: short
    steps may become longer for it. At most it is the whole time inside the calls, if the host is
    what limits the rest of the step too. Two workers are assumed at the careful end, eight at the
    hopeful one, or as many as there are cores where the recording tells them; 32 where loading is
    seen to wait more than to compute and memory has room for them. The cores must have time for
    all the work.

    What looks alike
    ----------------
    Calls of ``_MultiProcessingDataLoaderIter.__next__`` that wait are too few or too slow workers.
    A dataset that is already in memory has such calls too, but they cost nothing, and nothing is
    reported. Preprocessing outside the DataLoader, or too much of it for eight workers, shows as
    ``heavy-cpu-transform``. A loader that mostly waits for memory of the host is
    ``host-memory-pressure``: workers would need more of it.

    What to do
    ----------
    Give the DataLoader workers, keep them between epochs, and pin its batches. Where the cores have
    no room for them samples have to become cheaper. Do not give workers where the
    dataset is an ``IterableDataset`` that does not divide its samples among workers: every worker
    would yield all of them. Nor where the dataset holds what survives no fork, such as an open
    connection: have each worker open its own, first.

    References
    ----------
    PyTorch, Performance Tuning Guide, "Enable asynchronous data loading and augmentation";
    Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021.
    """
    calls = find_batch_waits(facts, Role.BATCH_INLINE)
    blocked = float(calls.exposed.sum()) / facts.scope_s
    if blocked < LEAST_SHARE or waits_for_memory(facts, blocked):
        return None
    work = min(1.0, float(calls.durations_s.sum()) / facts.scope_s)
    per_batch, parts = handoff_s(facts, len(calls)), tensors_s(facts)
    often = len(calls) / facts.scope_s
    cost = [(whole + each) * often for whole, each in zip(per_batch, parts, strict=True)]
    space = find_capacity(
        facts, work, blocked, (cost[0] + parts[0] * often, cost[1] + parts[1] * often)
    )
    given = _choose_workers(work, blocked, space.workers)
    low, expected, high = hidden_loading(
        blocked,
        work,
        (cost[0], cost[1]),
        facts.busy_ratio or 0.0,
        workers=space.workers,
        floor=space.floor,
        usual=space.usual,
        given=None if space.usual is None else given,
        ends=_epoch_wait(facts, blocked, given),
    )
    windows = union_of(calls.start, calls.end)
    looks = lines_with_share(facts, windows, inside=Role.LOADER_FRAME)
    hot = hot_function(facts, windows, looks)
    (asking,) = facts.workers.places_of("asked", workers=False) or (
        facts.places.place_of(int(calls.rows[0])),
    )
    seen = _sampled_places(hot, looks, asking)
    making = _loading_places(facts, seen)
    where = dict.fromkeys(place for place in (*making, asking, *seen) if place)
    short = space.usual is not None and not mostly_waits(facts)
    left = blocked - max(expected, 0.0) if short else 0.0
    per_step = work * facts.step_s
    return Proof(
        headline="The DataLoader has no workers: each batch holds up the step for "
        f"{format_duration(per_step)}",
        low=max(0.0, min(low, blocked)),
        high=max(low, high),
        predicted=may_cost(low, high, "P1: the step without the wait, plus hand-off", expected),
        evidence=_loader_evidence(calls, hot, blocked, per_step, facts),
        confidence=0.95,
        where=tuple(where)[:MOST_PLACES],
        facts=InputFacts(
            workers=given,
            undivided=_is_undivided(facts),
            unfit=_explain_unfit(facts),
            bound=facts.workers.loads_bound,
            most_workers=most_workers(facts, 0, waits=mostly_waits(facts)),
            device_work=launches_inside(facts, calls.start, calls.end) > 0,
            same_again=facts.workers.same_again,
            cached=prepared_once(blocked),
            leading=leading_once(facts, blocked),
            cheaper=made_cheaper(blocked) if left > LEFT else None,
            hidden_by_workers=left <= LEFT,
            compute=1.0 if facts.on_cpu else facts.bucket_share("compute"),
            media=decodes_media(facts, windows),
            storage=storage_library(facts, windows),
            function=making[0].function if making else None,
        ),
    )


def _sampled_places(
    hot: HottestFunction | None, looks: list[tuple[Place, float]], asking: Place | None
) -> list[Place]:
    """What was looked at while batches were loaded."""
    seen = [hot.place if hot else None, *(place for place, _ in looks)]
    return [place for place in seen if place and not _is_same_function(place, asking)]


def _loading_places(facts: Facts, seen: list[Place]) -> list[Place]:
    """The user's functions or lines that were seen to load, else the dataset's method."""
    functions = {(p.file, p.function): p for p in seen[::-1] if not in_library(p)}
    return list(functions.values())[::-1] or list(facts.workers.places_of("making", workers=False))


def _is_same_function(place: Place, other: Place | None) -> bool:
    """Whether both are one function: a look that came late sees the loop again, not the loader."""
    return other is not None and (place.file, place.function) == (other.file, other.function)


def _is_undivided(facts: Facts) -> bool:
    """Whether each of several workers may give all of the data."""
    return any(each.iterable for each in facts.timeline.loading.loaders if not each.workers)


def _explain_unfit(facts: Facts) -> str:
    """Why workers cannot have a dataset as it is; empty where nothing was seen that speaks against
    it."""
    told = (each.unfit for each in facts.timeline.loading.loaders if not each.workers)
    return next(filter(None, told), "")


def _choose_workers(work: float, blocked: float, bounds: tuple[int, int]) -> int:
    """Workers that keep up with the rest of the step, and one to spare, as far as there is room."""
    needed = int(np.ceil(work / max(1.0 - blocked, 1e-3))) + 1
    return min(max(needed, bounds[0]), bounds[1])


def _epoch_wait(facts: Facts, blocked: float, workers: int) -> float:
    """P2: share of the step that as many ``workers`` would be waited for, who mostly wait
    themselves and begin anew with every epoch; 0 where no loader tells how long its epochs are."""
    loading = facts.timeline.loading
    lengths = {each.batches for each in loading.loaders if not each.workers}
    rows = loading.batches
    rows = rows[(rows["worker"] < 0) & facts.scope.contains_times(rows["end"])]
    length = lengths.pop() if len(lengths) == 1 else None
    if not length or not len(rows) or not mostly_waits(facts):
        return 0.0
    per_step = len(rows) / max(facts.step_count, 1)
    waited = in_epochs(
        (rows["end"] - rows["start"]) / 1e9,
        length,
        workers=workers,
        between=(1.0 - blocked) * facts.step_s / per_step,
    )
    return waited * per_step / facts.step_s


def _loader_evidence(
    calls: BatchWaits, hot: HottestFunction | None, blocked: float, per_step: float, facts: Facts
) -> tuple[Evidence, ...]:
    found = [
        make_evidence(
            "time in DataLoader next per step",
            per_step,
            "s",
            samples=len(calls),
            source="annotation",
        ),
        make_evidence(
            "device idle meanwhile, share of step", blocked, "ratio", samples=facts.step_count
        ),
    ]
    if hot:
        found.append(
            make_evidence("most of the loading happens in", hot.name, None, source="stacks")
        )
        found.append(make_evidence("its share of the loading", hot.share, "ratio", source="stacks"))
    if facts.workers.seldom_again:  # why no cache is on offer: a longer run would tell
        needed = (
            f"samples seen made again ({LEAST_SAMPLES} would tell whether a cache can hold them)"
        )
        found.append(make_evidence(needed, facts.workers.repeated_samples[1], None))
    return tuple(found)
