"""The batch is too small to fill the device."""

from __future__ import annotations

from typing import Final

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.input.batch_size import (
    LargerBatch,
    backward_passes,
    find_batch_size,
    predict_larger_batch,
    predict_on_cpu,
)
from whyidle.analysis.lines.batchable_loops import may_take_more
from whyidle.analysis.lines.operator_loops import find_operator_loop, find_rollout
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.causes.device._kernel_savings import memory_used, share_evidence
from whyidle.model.cause import MOSTLY, Proof, cause
from whyidle.model.diagnosis import Evidence, Predicted
from whyidle.model.proof_facts import DeviceFacts
from whyidle.model.roles import Role

LEAST_GAIN: Final = 1.25
"""least samples per second at twice the batch, relative to now, also at the lower bound: with less
gain, the device or its input is already saturated"""
MOST: Final = 1024
"""largest factor that is predicted"""
MOST_ON_CPU: Final = 16
"""the same for a CPU, as far as it was compared with measurements"""
ROOM: Final = 0.9
"""largest share of the memory that a larger batch may fill"""
HOST: Final = 0.15
"""share of the step in launches and Python above which the host limits the device (peers: 15 %)"""


@cause(
    "The batch is too small to fill the device",
    bucket="host",
    needs=("device_events", "launch_links", "shapes", "gpu_model"),
    watched=("device_time", "every_operator", "steps"),
)
def batch_too_small(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    A step launches the same kernels for every batch size. With few samples, kernels finish before
    the host launches the next one, or have too few blocks to fill the GPU.

    Why it costs
    ------------
    Launches determine the step time. More samples in the same launches are nearly free.

    How it is detected
    ------------------
    Launches and Python take at least 15 % of the step, and twice the batch is predicted to process
    at least 25 % more samples per second, even at the lower bound. The prediction estimates, from
    shapes and the device's peak rates, which part of each kernel's time grows with the batch (P6
    from one size). Exposed loading and copies grow too, and loader workers keep their rate. The
    batch is doubled until a doubling brings less than 25 %, or memory is full.

    Job on the CPU: the optimizer's step, and the calls of operators in recorded steps, are paid
    once per step whatever the batch. Passes that ``--look model`` timed with larger batches replace
    this model. It is a remark unless most of the step is paid once. By the source, steps that train
    on all data at once, and those of one environment, can take no more samples.

    What looks alike
    ----------------
    ``launch-bound-small-kernels`` has the same gaps; its remedy is fewer launches instead of more
    work per launch. A busy device gains nothing from a larger batch.

    What to do
    ----------
    First replace gradient accumulation by a larger micro-batch, which computes the same gradients
    unless the model has batch normalisation. A larger global batch needs another learning rate.

    References
    ----------
    Gao et al., An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024).
    """
    if facts.on_cpu:
        return _small_on_cpu(facts)
    used, host = memory_used(facts), facts.bucket_share("host")
    if facts.cold_start or host < HOST:
        return None
    twice = predict_larger_batch(facts, 2.0)
    if twice is None or twice.relative_throughput(twice.worst_s) < LEAST_GAIN:
        return None
    best = _largest_useful_batch(facts, twice, used)
    if best is None:
        return None
    predicted = best.predict_gain()
    return Proof(
        headline=f"The batch is too small to fill the device: with {best.times:.3g} times the "
        f"batch it would process {predicted.speedup:.3g} times the samples per second",
        low=min(host, 1 - 1 / predicted.low) * 0.5,
        high=min(host, 1 - 1 / predicted.high),
        predicted=predicted,
        evidence=_batch_evidence(facts, best, used),
        removal=predict_removal(0.0, host, "P6: no wait for launches"),
        confidence=0.55 if used is None else 0.65,
        facts=DeviceFacts(
            times=int(best.times),
            batch=find_batch_size(facts),
            ranks=max(facts.timeline.world_size or 1, 1),
            most_times=None if not used else max(int(ROOM / used), int(best.times)),
            memory=None if used is None else used * best.times,
            passes=backward_passes(facts),
            microbatch=_larger_microbatch(facts, best),
        ),
    )


def _small_on_cpu(facts: Facts) -> Proof | None:
    run = facts.live or facts
    if run.timeline.framework != "pytorch" and not len(run.rows_of(Role.BACKWARD)):
        return None  # a compiled step, whose update is not timed by itself
    loop = find_operator_loop(run)
    if (loop and run.share_of(loop.spans) >= HOST) or find_rollout(run):  # calls for each sample
        return None
    texts = () if run.timeline.loading.loaders else run.timeline.sources.values()
    if not all(map(may_take_more, texts)):
        return None
    times, best = 1, Predicted(speedup=1.0, low=1.0, high=1.0, method="")
    twice = more = predict_on_cpu(facts, 2.0)
    while times < MOST_ON_CPU:
        if more.speedup < LEAST_GAIN * best.speedup:
            break
        times, best, more = 2 * times, more, predict_on_cpu(facts, 4.0 * times)
    if times == 1:
        return None
    sizes = {loader.batch_size for loader in run.timeline.loading.loaders}
    batch = sizes.pop() if len(sizes) == 1 else find_batch_size(facts)
    batch = batch if (backward_passes(run) or 1) == 1 else None  # accumulated, or of several losses
    now = f" instead of {batch:,}" if batch else ""
    samples = f"{times * batch:,} samples" if batch else f"{times} times the samples"
    begin, lost = "The batch is too small: w", (1.0 - 1.0 / best.low, 1.0 - 1.0 / best.speedup)
    if 2.0 - 2.0 / twice.low < MOSTLY:  # at this batch little is lost
        begin, lost = "W", (0.0, 0.0)
    return Proof(
        headline=f"{begin}ith {samples} per step{now} the CPU would process {best.speedup:.3g} "
        "times as many per second",
        low=lost[0],
        high=lost[1],
        predicted=best,
        evidence=(
            make_evidence(
                "samples per second at twice the batch", twice.speedup, "ratio", source="model"
            ),
        ),
        confidence=0.55,
        facts=DeviceFacts(times=times, batch=batch, ranks=max(facts.timeline.world_size or 1, 1)),
        bucket="compute",
    )


def _larger_microbatch(facts: Facts, best: LargerBatch) -> tuple[int, Predicted] | None:
    """How many passes of a step can be joined within the predicted range, and the gain; None
    without several equal passes: those of several optimizers, as in a GAN, are of other losses."""
    updates = facts.timeline.host.start[facts.rows_of(Role.OPTIMIZER)]
    several = facts.host_scope.contains_times(updates).sum() > facts.step_count
    count = 1 if several else backward_passes(facts) or 1
    times = max(n for n in range(1, int(best.times) + 1) if count % n == 0)
    joined = predict_larger_batch(facts, float(times)) if times > 1 else None
    return None if joined is None else (times, joined.predict_gain())


def _largest_useful_batch(
    facts: Facts, twice: LargerBatch, used: float | None
) -> LargerBatch | None:
    """The last doubling that is worthwhile and fits into memory, which is assumed to grow with the
    batch; None if not even twice the batch fits."""
    best, more = None, twice
    while more.times <= MOST and (used or 0.0) * more.times <= ROOM:
        before = 1.0 if best is None else best.relative_throughput(best.step_s)
        if more.relative_throughput(more.step_s) < LEAST_GAIN * before:
            break
        best = more
        following = predict_larger_batch(facts, 2.0 * more.times)
        if following is None:
            break
        more = following
    return best


def _batch_evidence(facts: Facts, best: LargerBatch, used: float | None) -> tuple[Evidence, ...]:
    rows = facts.kernels
    occupancy = facts.device.occupancy[rows]
    known = ~np.isnan(occupancy)
    name, step_s = "predicted step at the larger batch", round(best.step_s, 9)
    window = f"{best.times:.3g} times the batch"
    evidence = [
        make_evidence(name, step_s, "s", samples=facts.step_count, source="replay", window=window),
        share_evidence("device busy", facts.busy_ratio or 0.0, rows, "attribution"),
    ]
    if known.any():
        weights = np.maximum(facts.durations_s(rows)[known], 1e-12)
        mean = float(np.average(occupancy[known], weights=weights))
        evidence.append(share_evidence("estimated occupancy", mean, rows[known], "profiler"))
    if used is not None:
        evidence.append(share_evidence("peak memory in use", used, rows, "allocator"))
    return tuple(evidence)
