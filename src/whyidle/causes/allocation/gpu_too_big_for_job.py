"""The job would run as fast on a much smaller GPU."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.gpu_work import work_of
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Predicted

ACTIVE = 0.20
FULL = 0.20
"""share of the multiprocessors, and of the memory, below which a seventh of the card (the smallest
MIG slice) or two of them would do"""
WELL_FED = 0.80
"""share of useful compute from which on nothing else holds the GPU back"""


@cause(
    "The GPU is too big for the job",
    bucket="compute",
    needs=("gpu_telemetry", "device_events", "steady_steps"),
    watched=("gpu_telemetry",),
)
def gpu_too_big_for_job(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Kernels run nearly all of the time, yet on a fifth of the multiprocessors and in a fifth of the
    memory or less.

    Why it costs
    ------------
    Nothing for this job; the rest of the card is idle for as long as it runs.

    How it is detected
    ------------------
    GPM counters over the steps in scope: mean share of active multiprocessors, and peak memory
    against the card's; and at least 80 % of the step is useful compute (kernels run, as NVML tells
    it, where none were recorded), so that it is not idleness that keeps them low. It is a remark:
    no step becomes faster.

    What looks alike
    ----------------
    A starved GPU shows low activity too: then its cause is reported instead. A larger batch may
    fill the card: ``batch-too-small`` says so where the recording shows it.

    What to do
    ----------
    A MIG slice or a smaller GPU, several runs on one card (a search over hyperparameters as one
    batch of models), or a larger batch if learning allows.

    References
    ----------
    Strati et al., "Orion: Interference-aware, Fine-grained GPU Sharing for ML Applications",
    EuroSys 2024; NVIDIA, "Multi-Instance GPU User Guide".
    """
    outside = facts.telemetry
    if outside is None or len(outside.own_gpus) != 1:
        return None
    gpu = outside.own_gpus[0]
    work = work_of(facts, gpu)
    if work.share < WELL_FED:
        return None
    active = outside.mean_value("sm_active_ratio", gpu)
    used, whole = (
        outside.highest_value("memory_used_bytes", gpu),
        outside.mean_value("memory_total_bytes", gpu),
    )
    if active is None or used is None or not whole or active >= ACTIVE or used >= FULL * whole:
        return None
    return Proof(
        headline=f"The job keeps {active:.0%} of the GPU's multiprocessors and {used / whole:.0%} "
        "of its memory in use",
        low=0.0,
        high=0.0,
        predicted=Predicted(speedup=1.0, low=1.0, high=1.0, method="frees hardware, same speed"),
        evidence=(
            make_evidence("multiprocessors active", active, "ratio", source="GPM"),
            make_evidence("memory in use at most", used / whole, "ratio", source="NVML"),
            make_evidence("kernels running, share of step", work.share, "ratio"),
        ),
        confidence=0.6 if work.told else 0.5,
        bucket=work.bucket,
    )
