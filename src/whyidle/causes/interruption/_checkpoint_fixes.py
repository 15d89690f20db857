"""What two cures of checkpoints are worth: written beside the training, and written less often.

Shares are of the step (0-1).
"""

from __future__ import annotations

from whyidle.analysis.core_capacity import BUSY_CORE
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import may_cost, predict_removal
from whyidle.analysis.pauses import Pauses
from whyidle.model.diagnosis import Predicted
from whyidle.model.proof_facts import InterruptionFacts

COPY_S_PER_BYTE = (1 / 0.2e9, 1 / 1e9, 1 / 8e9)
"""copying the state within host memory (careful, expected, hopeful): into memory that the process
has not used before it went at 0.2 to 0.7 GB/s on a virtual machine"""

FAILURES_S = (4 * 3600.0, 24 * 3600.0, 10 * 24 * 3600.0)
"""time from one failure of a job to its next (careful, expected, hopeful), assumed: with more GPUs
it shrinks from weeks to hours (Kokolis et al., "Revisiting Reliability in Large-Scale Machine
Learning Research Clusters", HPCA 2025)"""


def predict_background_write(facts: Facts, found: Pauses) -> Predicted | None:
    """Written by a thread of a process that computes on the CPU itself: the thread works on the
    same cores, as far as saving is work, and the copy of the state is made before. None where
    there is a device of its own, or the cores are not told."""
    cores = _usable_cores(facts)
    if not facts.on_cpu or not cores:
        return None
    each_s = found.total_s / max(found.steps_hit, 1)
    worked, size = _checkpoint_facts(facts)
    full = min(_operator_threads(facts, cores) / cores, 1.0)
    gains = []
    for share, worth, copy_s in zip(
        (found.least, found.share, found.most), BUSY_CORE, COPY_S_PER_BYTE, strict=True
    ):
        taken = worked * full / (cores * worth)
        left = min(taken, 1.0) + size * copy_s / max(each_s, 1e-9)
        gains.append(share * (1.0 - left))
    low, expected, high = gains
    often = 1.0 if found.is_recurring else 0.0
    return may_cost(
        min(low, low * often),
        max(high, 0.0),
        "P9: written by a thread, on the same cores",
        max(expected, 0.0),
    )


def _usable_cores(facts: Facts) -> float | None:
    """Cores that the job may use, as its process tells, or as was read beside it."""
    told = facts.timeline.loading.cores or facts.timeline.process.cores
    return told or (facts.telemetry.mean_value("cores_effective") if facts.telemetry else None)


def _operator_threads(facts: Facts, usual: float) -> float:
    """Threads of its operators."""
    timeline = facts.timeline
    return float(timeline.loading.threads or timeline.process.operator_threads or usual)


def _checkpoint_facts(facts: Facts) -> tuple[float, float]:
    """Share of saving that was work of a core, and bytes of the largest file: all of it, and none,
    where nobody noted."""
    told = facts.timeline.process.saves
    worked = [(one.cpu_s, one.seconds) for one in told if one.cpu_s is not None]
    cpu, wall = (sum(column) for column in zip(*worked, strict=True)) if worked else (0.0, 0.0)
    size = max((one.bytes for one in told if one.bytes), default=0)
    return (min(cpu / wall, 1.0) if wall > 0.0 else 1.0), float(size)


def predict_rarer(facts: Facts, found: Pauses) -> InterruptionFacts:
    """Written as often as loses the least time: ``sqrt(2 C M)`` apart, for a checkpoint of ``C``
    seconds and a failure every ``M`` (Young, "A First Order Approximation to the Optimum Checkpoint
    Interval", CACM 17(9), 1974). ``predict_rarer`` is what that wins, ``interval_s`` from how many
    seconds apart to how many, and ``seen_s`` how long the job was seen, for one that ends sooner
    has its last checkpoint left, at the careful end; nothing where they are seen once only, or are
    as rare."""
    if not found.is_recurring:
        return InterruptionFacts()
    each_s = found.total_s / found.steps_hit
    now_s = facts.scope_s / found.steps_hit
    apart = [(2.0 * each_s * failures) ** 0.5 for failures in FAILURES_S]
    if apart[1] <= now_s:
        return InterruptionFacts()
    shares = (found.least, found.share, found.most)
    careful = min(apart[0], facts.scope_s)
    low, expected, high = (
        share * max(0.0, 1.0 - now_s / seconds)
        for share, seconds in zip(shares, (careful, *apart[1:]), strict=True)
    )
    method = "P9: checkpoints as far apart as a failure a day asks for (Young 1974)"
    told = predict_removal(low, high, method, expected)
    return InterruptionFacts(rarer=told, interval_s=(now_s, apart[1]), seen_s=facts.scope_s)
