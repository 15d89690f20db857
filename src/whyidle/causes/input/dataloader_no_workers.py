"""The DataLoader loads in the training process."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.core_capacity import find_capacity, mostly_waits
from whyidle.analysis.input.batch_waits import (
    BatchWaits,
    find_batch_waits,
    handoff_s,
    launches_inside,
    tensors_s,
)
from whyidle.analysis.input.data_libraries import find_conversion
from whyidle.analysis.input.decoding_libraries import decodes_media, storage_library
from whyidle.analysis.input.prefetch_model import wait_in_epochs
from whyidle.analysis.input.sample_work import work_inline
from whyidle.analysis.input.worker_batches import LEAST_SAMPLES
from whyidle.analysis.input.worker_capacity import most_workers
from whyidle.analysis.intervals import union_of
from whyidle.analysis.lines.costly_calls import find_costly_call
from whyidle.analysis.lines.hottest_function import HottestFunction, hot_function
from whyidle.analysis.lines.sampled_lines import DISPATCHERS, lines_with_share
from whyidle.analysis.lines.source_lines import in_library, package_of
from whyidle.analysis.memory.memory_pressure import waits_for_memory
from whyidle.analysis.steps.forecast import hidden_loading, predict_risk
from whyidle.analysis.steps.undisturbed_steps import undisturbed_share
from whyidle.causes.input._sample_evidence import (
    describe_conversion,
    describe_samples,
    describe_table,
    describe_work,
    line_evidence,
    predict_without_work,
)
from whyidle.causes.input._worker_evidence import (
    describe_prefix,
    predict_cached_samples,
    predict_cheaper_samples,
)
from whyidle.model.cause import LEAST_SHARE, MOST_PLACES, MOSTLY, Proof, cause
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import InputFacts
from whyidle.model.roles import Role

NAMES = (
    "Loading in the training process, where workers would not pay off,",
    "The DataLoader has no workers: loading",
)
LEFT = 0.1
"""least wait with workers, as share of the step, that also calls for cheaper samples"""


@cause(
    "The DataLoader has no workers",
    bucket="input",
    needs=("device_time", "loader_marks", "steps"),
    watched=("device_marks", "loader_marks", "steps"),
)
def dataloader_no_workers(facts: Facts) -> Proof | None:
    """What it means
    -------------
    ``DataLoader(num_workers=0)``: the thread that launches the GPU's work also reads, decodes and
    collates the samples. The GPU waits for every batch.

    Why it costs
    ------------
    Loading and computing do not overlap: the step lasts their sum, not their maximum.

    How it is detected
    ------------------
    The recording has calls of ``_SingleProcessDataLoaderIter.__next__``, during which the device is
    idle for at least 1 % of the step. The expected gain is this idle time, less the hand-off of
    batches from workers. The hand-off takes CPU time and grows with the number of tensors, so short
    steps may become longer. The upper bound hides all of the time inside the calls.

    The lower bound assumes two workers, the upper bound eight, or one per core if there are fewer
    cores. If loading mostly waits, the upper bound assumes up to 32 workers, as memory allows. No
    prediction gives the cores more work than they have time for.

    What looks alike
    ----------------
    Waits in ``_MultiProcessingDataLoaderIter.__next__`` mean too few or too slow workers. Keras
    datasets on PyTorch are ``single-batch-generator``. A dataset in memory costs too little to be
    reported. Preprocessing outside the loader is ``heavy-cpu-transform``. Waits for host memory are
    ``host-memory-pressure``.

    What to do
    ----------
    Set ``num_workers``, ``persistent_workers=True`` and ``pin_memory=True``. If no cores are left
    for workers, make samples cheaper. Do not add workers to an ``IterableDataset`` that does not
    split its samples: every worker would return all of them. If the dataset holds something that
    does not survive a fork, such as an open connection, open it in each worker.

    References
    ----------
    PyTorch, Performance Tuning Guide, "Enable asynchronous data loading and augmentation";
    Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021.
    """
    calls = find_batch_waits(facts, Role.BATCH_INLINE)
    blocked = float(calls.exposed.sum()) / facts.scope_s
    asked = [each.asked or "" for each in facts.timeline.loading.loaders]
    if any(package_of(line) in DISPATCHERS for line in asked):
        return None  # the loader is Keras' own
    if blocked < LEAST_SHARE or waits_for_memory(facts, blocked):
        return None
    work = min(1.0, float(calls.durations_s.sum()) / facts.scope_s)
    per_batch, parts = handoff_s(facts, len(calls)), tensors_s(facts)
    often = len(calls) / facts.scope_s
    cost = [(whole + each) * often for whole, each in zip(per_batch, parts, strict=True)]
    space = find_capacity(
        facts, work, blocked, (cost[0] + parts[0] * often, cost[1] + parts[1] * often)
    )
    needed = int(np.ceil(work / max(1.0 - blocked, 1e-3))) + 1  # to keep up, and one spare
    given = min(max(needed, space.workers[0]), space.workers[1])
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
    call = find_costly_call(facts)  # making loading cheaper precedes spreading it
    if call and call.known and (call.spans & windows).total > MOSTLY * windows.total:
        return None
    samples = lines_with_share(facts, windows, inside=Role.LOADER_FRAME)
    own = work_inline(facts, windows)
    conversion, part = find_conversion(facts, windows)
    alone = undisturbed_share(facts, windows & facts.time_of("loader"))
    hot = hot_function(facts, windows, samples)
    (asking,) = facts.workers.places_of("asked", workers=False) or (
        facts.places.place_of(int(calls.rows[0])),
    )
    seen = _sampled_places(hot, samples, asking)
    table = describe_table(facts, calls, blocked)
    removed = table.get("removed") or predict_without_work(facts, own, alone)
    making = _loading_places(facts, seen)
    lines = own.places if own else ()
    where = dict.fromkeys(place for place in (*lines[:3], *making, asking, *seen) if place)
    hidden = high if space.usual is None else max(expected, 0.0)
    left = 0.0 if mostly_waits(facts) else blocked - hidden
    per_step = work * facts.step_s
    loaders = [loader for loader in facts.timeline.loading.loaders if not loader.workers]
    return Proof(
        headline=f"{NAMES[int(expected > 0.0)]} takes {format_duration(per_step)} per "
        f"step{describe_work(own) or _describe_conversion(conversion)}",
        low=max(0.0, min(low, blocked)),
        high=max(low, high, 1.0 - 1.0 / removed.high if table and removed else 0.0),
        predicted=predict_risk(low, high, "P1: the step without the wait, plus hand-off", expected),
        evidence=(
            *_loader_evidence(calls, hot, blocked, per_step, facts),
            *line_evidence(facts, own),
        ),
        confidence=0.95,
        where=tuple(where)[:MOST_PLACES],
        facts=InputFacts(
            workers=given,
            undivided=any(loader.iterable for loader in loaders),
            unfit=next((loader.unfit for loader in loaders if loader.unfit), ""),
            bound=facts.workers.loads_bound,
            most_workers=most_workers(facts, 0, waits=mostly_waits(facts)),
            device_work=launches_inside(facts, calls.start, calls.end) > 0,
            same_again=facts.workers.same_again,
            cached=predict_cached_samples(blocked),
            **describe_prefix(facts, own, blocked),
            cheaper=predict_cheaper_samples(blocked) if left > LEFT else None,
            hidden_by_workers=left <= LEFT,
            compute=1.0 if facts.on_cpu else facts.bucket_share("compute"),
            waits=mostly_waits(facts),
            media=decodes_media(facts, windows),
            storage=storage_library(facts, windows),
            function=making[0].function if making else None,
            **describe_conversion(conversion, part * blocked),
            **(table or describe_samples(own, alone)),
        ),
        removal=removed,
    )


def _describe_conversion(conversion: str) -> str:
    made = {"objects": "Python objects of its values", "rows": "arrays row by row"}
    return f", in which Hugging Face datasets makes {made[conversion]}" if conversion else ""


def _sampled_places(
    hot: HottestFunction | None, samples: list[tuple[Place, float]], asking: Place | None
) -> list[Place]:
    seen = [hot.place if hot else None, *(place for place, _ in samples)]
    loop = (asking.file, asking.function) if asking else None  # a late sample shows it again
    return [place for place in seen if place and (place.file, place.function) != loop]


def _loading_places(facts: Facts, seen: list[Place]) -> list[Place]:
    functions = {(p.file, p.function): p for p in seen[::-1] if not in_library(p)}
    return list(functions.values())[::-1] or list(facts.workers.places_of("making", workers=False))


def _epoch_wait(facts: Facts, blocked: float, workers: int) -> float:
    """P2: share of the step spent waiting at epoch starts for ``workers`` that mostly wait
    themselves; 0 if the length of an epoch is unknown."""
    loading = facts.timeline.loading
    lengths = {each.batches for each in loading.loaders if not each.workers}
    rows = loading.batches
    rows = rows[(rows["worker"] < 0) & facts.scope.contains_times(rows["end"])]
    length = lengths.pop() if len(lengths) == 1 else None
    if not length or not len(rows) or not mostly_waits(facts):
        return 0.0
    per_step = len(rows) / max(facts.step_count, 1)
    waited = wait_in_epochs(
        (rows["end"] - rows["start"]) / 1e9,
        length,
        workers=workers,
        between=(1.0 - blocked) * facts.step_s / per_step,
    )
    return waited * per_step / facts.step_s


def _loader_evidence(
    calls: BatchWaits, hot: HottestFunction | None, blocked: float, per_step: float, facts: Facts
) -> tuple[Evidence, ...]:
    evidence = [
        make_evidence("loading per step", per_step, "s", samples=len(calls), source="annotation"),
        make_evidence("device idle during loading, share of step", blocked, "ratio"),
    ]
    if hot:
        evidence.append(make_evidence("costliest function", hot.name, None, source="stacks"))
        evidence.append(make_evidence("its share of loading", hot.share, "ratio", source="stacks"))
    if facts.workers.seldom_again:  # why no cache is proposed: a longer run would show it
        needed = f"repeated samples ({LEAST_SAMPLES} needed to judge caching)"
        evidence.append(make_evidence(needed, facts.workers.repeated_samples[1], None))
    return tuple(evidence)
