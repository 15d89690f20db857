"""The batch is too small to fill the device."""

from __future__ import annotations

from typing import Final

import numpy as np

from whyidle.analysis.batch_size import (
    LargerBatch,
    backward_passes,
    find_batch_size,
    predict_larger_batch,
)
from whyidle.analysis.facts import Facts
from whyidle.causes.device import _kernel_savings
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence, Predicted
from whyidle.model.proof_facts import DeviceFacts

STEPS: Final = (2, 4, 8)
"""the factors that are tried; more than eightfold is not predicted from one size"""
LEAST_GAIN: Final = 1.25
"""twice the batch must at least be worth a quarter more samples per second, at the careful end"""
NEARLY_FLAT: Final = 1.25
"""the batch is raised as long as the step gets at most this much longer"""
MEMORY: Final = 0.5
"""peak memory from which the batch is not called small (with at most 50 % of utilisation and of
memory: the rule of the ICSE 2024 study of 400 jobs)"""
ROOM: Final = 0.9
"""a larger batch may fill the memory this far"""
BUSY: Final = 0.5
"""the same rule's utilisation: a device busier than this is not called unfilled"""
HOST: Final = 0.15
"""share of the step in launches and Python from which the host holds the device up (peers: 15 %)"""
ELSEWHERE: Final = 0.1
"""with more of the step in loading or copying, which grow with the batch, nothing is predicted"""


@cause(
    "The batch is too small to fill the device",
    bucket="host",
    needs=("device_events", "launch_links", "shapes", "gpu_model"),
)
def batch_too_small(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    A step launches the same kernels whatever the batch; with few samples each is over before the
    host has launched the next, or has too few blocks for all multiprocessors.

    Why it costs
    ------------
    The step takes as long as launching it. More samples in the same launches are nearly free.

    How it is detected
    ------------------
    From shapes and the device's peaks: which part of each kernel's time grows with the batch. The
    step is replayed with such times (P6 from one size). Reported where twice the batch is worth at
    least 25 % more samples per second even at the careful end, at most half the memory is in use
    where that is recorded, and loading, copies and communication are not the story.

    What looks alike
    ----------------
    ``launch-bound-small-kernels`` is the same gap seen from the other side: fewer launches instead
    of more work in each. A busy device is not helped by a larger batch.

    What to do
    ----------
    Exchange accumulation steps for a larger micro-batch first: the same mathematics. A larger
    global batch needs another learning rate and may learn differently.

    References
    ----------
    Gao et al., An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024).
    """
    used = _kernel_savings.memory_used(facts)
    grows = (
        facts.bucket_share("input")
        + facts.bucket_share("transfer")
        + facts.bucket_share("communication")
    )
    if grows > ELSEWHERE or facts.cold_start or (used is not None and used > MEMORY):
        return None
    if (facts.busy_ratio or 0.0) > BUSY or facts.bucket_share("host") < HOST:
        return None
    twice = predict_larger_batch(facts, 2.0)
    if twice is None or twice.relative_throughput(twice.worst_s) < LEAST_GAIN:
        return None
    best = _largest_useful_batch(facts, twice, used)
    low, high = best.relative_throughput(best.worst_s), best.relative_throughput(best.best_s)
    host = facts.bucket_share("host")
    return Proof(
        headline=f"A batch {best.times:.3g} times as large would "
        f"{_describe_longer_step(best)}: the device is "
        "not filled",
        low=min(host, 1 - 1 / low) * 0.5,
        high=min(host, 1 - 1 / high),
        predicted=_predict_gain(best),
        evidence=_batch_evidence(facts, best, used),
        confidence=0.55 if used is None else 0.65,
        facts=DeviceFacts(
            times=int(best.times),
            batch=find_batch_size(facts),
            ranks=max(facts.timeline.world_size or 1, 1),
            most_times=None if not used else max(int(ROOM / used), int(best.times)),
            passes=backward_passes(facts),
            microbatch=_larger_microbatch(facts, best),
        ),
    )


def _predict_gain(found: LargerBatch) -> Predicted:
    return Predicted(
        speedup=found.relative_throughput(found.step_s),
        low=found.relative_throughput(found.worst_s),
        high=found.relative_throughput(found.best_s),
        method=f"P6 from one size: samples per second at {found.times:.3g} times the batch",
    )


def _larger_microbatch(facts: Facts, best: LargerBatch) -> tuple[int, Predicted] | None:
    """So many of a step's passes can be made one, within what is predicted; None without several
    that are alike."""
    count = backward_passes(facts) or 1
    times = max(n for n in range(1, int(best.times) + 1) if count % n == 0)
    joined = predict_larger_batch(facts, float(times)) if times > 1 else None
    return None if joined is None else (times, _predict_gain(joined))


def _describe_longer_step(best: LargerBatch) -> str:
    more = best.step_s / best.now_s - 1.0
    return f"take only {more:.0%} longer" if more >= 0.01 else "take no longer"


def _largest_useful_batch(facts: Facts, twice: LargerBatch, used: float | None) -> LargerBatch:
    """The largest batch for which the step is still nearly as long as now, and memory is there."""
    best = twice
    for times in STEPS[1:]:
        more = predict_larger_batch(facts, float(times))
        if more is None or more.step_s > NEARLY_FLAT * more.now_s:
            break
        if used is not None and used * times > ROOM:
            break
        best = more
    return best


def _batch_evidence(facts: Facts, best: LargerBatch, used: float | None) -> tuple[Evidence, ...]:
    rows = facts.kernels
    occupancy = facts.device.occupancy[rows]
    known = ~np.isnan(occupancy)
    seconds = facts.durations_s(rows)
    found = [
        Evidence(
            quantity="step predicted at the larger batch",
            value=round(best.step_s, 9),
            unit="s",
            window=f"{best.times:.3g} times the batch",
            samples=facts.step_count,
            source="replay",
        ),
        _kernel_savings.share_evidence("device busy", facts.busy_ratio or 0.0, rows, "attribution"),
    ]
    if known.any():
        mean = float(np.average(occupancy[known], weights=np.maximum(seconds[known], 1e-12)))
        found.append(
            _kernel_savings.share_evidence("estimated occupancy", mean, rows[known], "profiler")
        )
    if used is not None:
        found.append(_kernel_savings.share_evidence("peak memory in use", used, rows, "allocator"))
    return tuple(found)
