"""The job would run as fast on a much smaller GPU."""

from __future__ import annotations

from whyidle.analysis.device.gpu_work import work_of
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Predicted

ACTIVE = 0.20
FULL = 0.20
"""shares of the multiprocessors and of the memory below which one or two sevenths of the card (MIG
slices) are enough"""
WELL_FED = 0.80
"""share of useful compute above which nothing else limits the GPU"""


@cause(
    "The GPU is larger than the job needs",
    bucket="compute",
    needs=("gpu_telemetry", "device_events", "steady_steps"),
    watched=("gpu_telemetry",),
)
def gpu_too_big_for_job(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Kernels run nearly all of the time, but use a fifth or less of the multiprocessors and of the
    memory.

    Why it costs
    ------------
    It costs this job nothing; the rest of the card is idle while it runs.

    How it is detected
    ------------------
    GPM counters over the steps in scope give the mean share of active multiprocessors, and NVML the
    peak memory as a share of the card's. At least 80 % of the step is useful compute (or NVML
    reports running kernels, where none were recorded), so idleness does not explain the low use.
    The finding is only a note: no step becomes faster.

    What looks alike
    ----------------
    A starved GPU has low activity too; its cause is reported instead. If the recording shows that a
    larger batch would fill the card, ``batch-too-small`` is reported.

    What to do
    ----------
    Use a MIG slice or a smaller GPU, several runs on one card (a hyperparameter search as one batch
    of models), or a larger batch if convergence allows.

    References
    ----------
    Strati et al., "Orion: Interference-aware, Fine-grained GPU Sharing for ML Applications",
    EuroSys 2024; NVIDIA, "Multi-Instance GPU User Guide".
    """
    telemetry = facts.telemetry
    if telemetry is None or len(telemetry.own_gpus) != 1:
        return None
    gpu = telemetry.own_gpus[0]
    work = work_of(facts, gpu)
    active = telemetry.mean_value("sm_active_ratio", gpu)
    used = telemetry.highest_value("memory_used_bytes", gpu)
    total = telemetry.mean_value("memory_total_bytes", gpu)
    if work.share < WELL_FED or active is None or used is None or not total:
        return None
    if active >= ACTIVE or used >= FULL * total:
        return None
    return Proof(
        headline=f"The job uses {active:.0%} of the GPU's multiprocessors and {used / total:.0%} "
        "of its memory",
        low=0.0,
        high=0.0,
        predicted=Predicted(speedup=1.0, low=1.0, high=1.0, method="frees hardware, same speed"),
        evidence=(
            make_evidence("active multiprocessors", active, "ratio", source="GPM"),
            make_evidence("peak memory in use", used / total, "ratio", source="NVML"),
            make_evidence("kernels running, share of step", work.share, "ratio"),
        ),
        confidence=0.6 if work.is_from_kernels else 0.5,
        bucket=work.bucket,
    )
