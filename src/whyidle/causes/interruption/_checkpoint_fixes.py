"""The gains of writing checkpoints in the background and of writing them less often.

Shares are of the step (0-1).
"""

from __future__ import annotations

from whyidle.analysis.facts import Facts
from whyidle.analysis.host.core_capacity import BUSY_CORE
from whyidle.analysis.partition.pauses import Pauses
from whyidle.analysis.steps.forecast import predict_removal, predict_risk
from whyidle.model.diagnosis import Predicted
from whyidle.model.proof_facts import InterruptionFacts

COPY_S_PER_BYTE = (1 / 0.2e9, 1 / 1e9, 1 / 8e9)
"""copying the state within host memory (careful, expected, hopeful): into memory new to the process
the rate was 0.2 to 0.7 GB/s on a virtual machine"""

FAILURES_S = (4 * 3600.0, 24 * 3600.0, 10 * 24 * 3600.0)
"""time between failures of a job (careful, expected, hopeful), assumed: with more GPUs it shrinks
from weeks to hours (Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning
Research Clusters", HPCA 2025)"""


def predict_background_write(facts: Facts, pauses: Pauses) -> Predicted | None:
    """Written by a thread, in a job that computes on the CPU: the thread uses the same cores, as
    far as saving is work, after a copy of the state. None with a device, or where the number of
    cores is unknown."""
    loading, process, telemetry = facts.timeline.loading, facts.timeline.process, facts.telemetry
    cores = loading.cores or process.cores
    cores = cores or (telemetry.mean_value("cores_effective") if telemetry else None)
    if not facts.on_cpu or not cores:
        return None
    each_s = pauses.total_s / max(pauses.steps_hit, 1)
    worked, size = _checkpoint_facts(facts)
    full = min((loading.threads or process.operator_threads or cores) / cores, 1.0)
    gains = []
    for share, worth, copy_s in zip(
        (pauses.least, pauses.share, pauses.most), BUSY_CORE, COPY_S_PER_BYTE, strict=True
    ):
        taken = worked * full / (cores * worth)
        left = min(taken, 1.0) + size * copy_s / max(each_s, 1e-9)
        gains.append(share * (1.0 - left))
    low, expected, high = gains
    often = 1.0 if pauses.is_recurring else 0.0
    return predict_risk(
        min(low, low * often),
        max(high, 0.0),
        "P9: written by a thread on the same cores",
        max(expected, 0.0),
    )


def _checkpoint_facts(facts: Facts) -> tuple[float, float]:
    """Share of saving that was CPU work, and bytes of the largest file; where nothing was noted,
    all of it and none."""
    saves = facts.timeline.process.saves
    worked = [(save.cpu_s, save.seconds) for save in saves if save.cpu_s is not None]
    cpu, wall = (sum(column) for column in zip(*worked, strict=True)) if worked else (0.0, 0.0)
    size = max((save.bytes for save in saves if save.bytes), default=0)
    return (min(cpu / wall, 1.0) if wall > 0.0 else 1.0), float(size)


def predict_rarer(facts: Facts, pauses: Pauses) -> InterruptionFacts:
    """The gain of the interval that loses the least time: ``sqrt(2 C M)``, for a checkpoint of
    ``C`` seconds and a failure every ``M`` (Young, "A First Order Approximation to the Optimum
    Checkpoint Interval", CACM 17(9), 1974). At the careful end a job that ends sooner still writes
    its last checkpoint. Empty with a single checkpoint, or with checkpoints that are as rare."""
    if not pauses.is_recurring:
        return InterruptionFacts()
    each_s = pauses.total_s / pauses.steps_hit
    now_s = facts.scope_s / pauses.steps_hit
    apart = [(2.0 * each_s * failures) ** 0.5 for failures in FAILURES_S]
    if apart[1] <= now_s:
        return InterruptionFacts()
    shares = (pauses.least, pauses.share, pauses.most)
    careful = min(apart[0], facts.scope_s)
    low, expected, high = (
        share * max(0.0, 1.0 - now_s / seconds)
        for share, seconds in zip(shares, (careful, *apart[1:]), strict=True)
    )
    method = "P9: the best interval for one failure a day (Young 1974)"
    rarer = predict_removal(low, high, method, expected)
    return InterruptionFacts(rarer=rarer, interval_s=(now_s, apart[1]), seen_s=facts.scope_s)
