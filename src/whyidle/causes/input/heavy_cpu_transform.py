"""Preprocessing takes more CPU time than the training loop can hide."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.core_capacity import find_capacity
from whyidle.analysis.input.batch_waits import handoff_s
from whyidle.analysis.input.decoding_libraries import (
    decoded_by_workers,
    decodes_media,
    storage_library,
    stored_by_workers,
)
from whyidle.analysis.input.sample_work import SampleWork, work_inline, work_of_workers
from whyidle.analysis.lines.hottest_function import HottestFunction, hot_function
from whyidle.analysis.sampling.share_error import share_bounds
from whyidle.analysis.steps.forecast import (
    from_gains,
    hidden_loading,
    predict_removal,
)
from whyidle.analysis.steps.undisturbed_steps import undisturbed_share
from whyidle.causes.host._eager_operators import find_eager_calls
from whyidle.causes.input._pipeline_evidence import prove_pipeline_work
from whyidle.causes.input._sample_evidence import (
    describe_samples,
    describe_work,
    describe_worker_samples,
    line_evidence,
    predict_without_work,
    predict_without_worker_code,
)
from whyidle.causes.input._worker_evidence import (
    CHEAPER,
    describe_worker_prefix,
    wait_evidence,
)
from whyidle.model.cause import LEAST_SHARE, MOST_PLACES, Proof, cause
from whyidle.model.diagnosis import Place
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import InputFacts
from whyidle.model.roles import Role


@cause(
    "Preprocessing takes too much CPU time", bucket="input", needs=("device_time", "python_stacks")
)
def heavy_cpu_transform(facts: Facts) -> Proof | None:
    """What it means
    -------------
    Decoding, resizing, augmenting or tokenising runs in the training process between the GPU's
    work, or in loader workers that cannot be made faster by more of them.

    Why it costs
    ------------
    The GPU has nothing to do until the next input is ready.

    How it is detected
    ------------------
    In the training process: the device is idle while the launching thread is in a library for
    images, video, audio or text, in a function named after data preparation, or in the job's own
    generator of batches. Functions that launch kernels do not count. The expected gain is what
    workers would hide. If the share comes from stack samples, the bounds include their error.

    If loader workers were recorded, they mostly compute, and training would still wait for at least
    1 % of the step with as many workers as the cores allow. The lower bound assumes a third less
    CPU time, the expected gain half of it. While workers wait for cores, the step takes as long as
    the cores need for the CPU time of all of the job's processes.

    In a tf.data pipeline: tf.data's own model shows one stage with most of the work per batch. By
    the CPU time of the process, it computes rather than waits. It is parallel already, or calls
    Python, which only one thread can run. It needs at least half a step per batch. Bounds as above.

    What looks alike
    ----------------
    Augmentation on the GPU launches kernels and is not counted. Time in a DataLoader without
    workers is ``dataloader-no-workers``. A profiler of the training process does not see
    transforms in workers. Results that are the same in every epoch are
    ``repeated-deterministic-preprocessing``.

    What to do
    ----------
    Move the work into the dataset, so that workers do it ahead of time. Then make it cheaper:
    decode at reduced size, crop before resizing, use faster libraries. Or do it on the idle GPU.

    References
    ----------
    Mohan et al., VLDB 2021; Isenko et al., "Where Is My Training Bottleneck?" (PRESTO), SIGMOD
    2022.
    """
    if (of_pipeline := prove_pipeline_work(facts)) is not None:
        return of_pipeline
    if facts.workers.wait_kind == "work":
        return _prove_by_workers(facts)
    outside = facts.time_of("preprocess") - find_eager_calls(facts).spans
    spent = facts.share_of(outside)
    if spent < LEAST_SHARE:
        return None
    hot, own = hot_function(facts, outside), work_inline(facts, outside)
    cost = [seconds / facts.step_s for seconds in handoff_s(facts, facts.step_count)]
    space = find_capacity(facts, spent, spent, (cost[0], cost[1]))
    name = "costliest function"
    low, expected, high = hidden_loading(
        *(spent, spent, (cost[0], cost[1]), facts.busy_ratio or 0.0),
        workers=space.workers,
        floor=space.floor,
        usual=space.usual,
    )
    least, most = share_bounds(facts, outside)
    low, high = max(low, 0.0) * least / max(spent, 1e-9), min(high + most - spent, 1.0)
    alone = max(spent, undisturbed_share(facts, outside))
    expected = min(expected, spent)
    predicted = predict_removal(
        low, max(high, expected), "P1: preprocessed ahead by workers", expected
    )
    place = describe_work(own) or (
        f", most of it in {hot.place.function}" if hot and hot.place else ""
    )
    return Proof(
        headline=f"Preprocessing on the CPU takes {format_duration(spent * facts.step_s)} per step"
        f"{place}",
        low=low,
        high=spent,
        predicted=predicted,
        evidence=(
            make_evidence("device idle during preprocessing, share of step", spent, "ratio"),
            *[make_evidence(name, one.name, None, source="stacks") for one in (hot,) if one],
            *line_evidence(facts, own),
        ),
        confidence=0.85,
        where=_places_of(facts, hot, own),
        facts=InputFacts(
            compute=1.0 if facts.on_cpu else facts.bucket_share("compute"),
            function=hot.name if hot else None,
            media=decodes_media(facts, outside),
            storage=storage_library(facts, outside),
            same_again=False,
            **describe_samples(own, alone),
        ),
        removal=predict_without_work(facts, own, alone),
    )


def _places_of(
    facts: Facts, hot: HottestFunction | None, own: SampleWork | None
) -> tuple[Place, ...]:
    lines = list(own.places[:3]) if own else []
    found = dict.fromkeys(p for p in (*lines, _user_place(facts), hot and hot.place) if p)
    return tuple(found)[:MOST_PLACES]


def _prove_by_workers(facts: Facts) -> Proof | None:
    workers = facts.workers
    left = workers.remaining_share(workers.predict_stall(workers.best_workers))
    if left < LEAST_SHARE or workers.same_again:
        return None
    gains = list[float]()
    for share in CHEAPER:
        saved = share * workers.mean_of("cpu")
        made = workers.batch_time + workers.pickle_time - saved
        work = max(0.0, workers.mean_of("process_cpu") - saved)
        stall = workers.predict_stall(workers.best_workers, made, work)
        on_cores = workers.predict_on_full_cores(saved) if gains else 0.0
        gains.append(max(0.0, left - workers.remaining_share(stall), on_cores))
    own = work_of_workers(facts)
    place = f", most of it in {workers.hottest_line[0].function}" if workers.hottest_line else ""
    return Proof(
        headline=f"Preprocessing a batch takes {format_duration(workers.mean_of('cpu'))} of "
        f"CPU{describe_work(own) or place}",
        low=gains[0],
        high=max(left, gains[2]),
        predicted=from_gains((gains[0], gains[1], gains[2]), "P1: cheaper preprocessing"),
        evidence=(*wait_evidence(workers, "cpu", "delay", "collate"), *line_evidence(facts, own)),
        confidence=0.85,
        where=own.places[:3] if own else workers.costliest_places,
        facts=InputFacts(
            compute=1.0 if facts.on_cpu else facts.bucket_share("compute"),
            same_again=False,
            inside=True,
            media=decoded_by_workers(facts),
            storage=stored_by_workers(facts),
            **describe_worker_prefix(workers, own),
            **describe_worker_samples(facts, own),
        ),
        removal=predict_without_worker_code(facts, own),
        bucket="compute" if on_cores else None,
    )


def _user_place(facts: Facts) -> Place | None:
    rows = facts.host.rows_of(Role.PREPROCESS)
    rows = rows[facts.scope.contains_times(facts.timeline.host.start[rows])]
    if not len(rows):
        return None
    host = facts.timeline.host
    longest = rows[np.argmax(host.end[rows] - host.start[rows])]
    return facts.places.place_of(int(longest))
