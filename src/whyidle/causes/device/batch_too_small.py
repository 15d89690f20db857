"""The batch is too small to fill the device."""

from __future__ import annotations

from typing import Final

import numpy as np

from whyidle.analysis.batch import Grown, grown, passes, size
from whyidle.analysis.facts import Facts
from whyidle.causes.device import _busy
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
    used = _busy.memory_used(facts)
    grows = facts.share("input") + facts.share("transfer") + facts.share("communication")
    if grows > ELSEWHERE or facts.cold_start or (used is not None and used > MEMORY):
        return None
    if (facts.busy_ratio or 0.0) > BUSY or facts.share("host") < HOST:
        return None
    twice = grown(facts, 2.0)
    if twice is None or twice.throughput(twice.worst_s) < LEAST_GAIN:
        return None
    best = _raised(facts, twice, used)
    low, high = best.throughput(best.worst_s), best.throughput(best.best_s)
    host = facts.share("host")
    return Proof(
        headline=f"A batch {best.times:.3g} times as large would {_longer(best)}: the device is "
        "not filled",
        low=min(host, 1 - 1 / low) * 0.5,
        high=min(host, 1 - 1 / high),
        predicted=_predicted(best),
        evidence=_evidence(facts, best, used),
        confidence=0.55 if used is None else 0.65,
        facts=DeviceFacts(
            times=int(best.times),
            batch=size(facts),
            ranks=max(facts.timeline.world_size or 1, 1),
            most_times=None if not used else max(int(ROOM / used), int(best.times)),
            passes=passes(facts),
            microbatch=_microbatch(facts, best),
        ),
    )


def _predicted(found: Grown) -> Predicted:
    return Predicted(
        speedup=found.throughput(found.step_s),
        low=found.throughput(found.worst_s),
        high=found.throughput(found.best_s),
        method=f"P6 from one size: samples per second at {found.times:.3g} times the batch",
    )


def _microbatch(facts: Facts, best: Grown) -> tuple[int, Predicted] | None:
    """So many of a step's passes can be made one, within what is predicted; None without several
    that are alike."""
    count = passes(facts) or 1
    times = max(n for n in range(1, int(best.times) + 1) if count % n == 0)
    joined = grown(facts, float(times)) if times > 1 else None
    return None if joined is None else (times, _predicted(joined))


def _longer(best: Grown) -> str:
    more = best.step_s / best.now_s - 1.0
    return f"take only {more:.0%} longer" if more >= 0.01 else "take no longer"


def _raised(facts: Facts, twice: Grown, used: float | None) -> Grown:
    """The largest batch for which the step is still nearly as long as now, and memory is there."""
    best = twice
    for times in STEPS[1:]:
        more = grown(facts, float(times))
        if more is None or more.step_s > NEARLY_FLAT * more.now_s:
            break
        if used is not None and used * times > ROOM:
            break
        best = more
    return best


def _evidence(facts: Facts, best: Grown, used: float | None) -> tuple[Evidence, ...]:
    rows = facts.kernels
    occupancy = facts.device.occupancy[rows]
    known = ~np.isnan(occupancy)
    seconds = facts.seconds(rows)
    found = [
        Evidence(
            quantity="step predicted at the larger batch",
            value=round(best.step_s, 9),
            unit="s",
            window=f"{best.times:.3g} times the batch",
            samples=facts.step_count,
            source="replay",
        ),
        _busy.share_evidence("device busy", facts.busy_ratio or 0.0, rows, "attribution"),
    ]
    if known.any():
        mean = float(np.average(occupancy[known], weights=np.maximum(seconds[known], 1e-12)))
        found.append(_busy.share_evidence("estimated occupancy", mean, rows[known], "profiler"))
    if used is not None:
        found.append(_busy.share_evidence("peak memory in use", used, rows, "allocator"))
    return tuple(found)
