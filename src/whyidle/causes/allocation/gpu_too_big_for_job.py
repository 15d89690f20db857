"""The job would run as fast on a much smaller GPU."""

from __future__ import annotations

from whyidle.analysis.device.gpu_work import work_of
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Predicted

ACTIVE = 0.20
FULL = 0.20
"""shares of the multiprocessors and of the memory below which a MIG slice of one or two sevenths of
the card is enough"""
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
    Kernels run nearly always, but use less than a fifth of the multiprocessors and of the memory.

    Why it costs
    ------------
    It costs this job nothing, but the rest of the card is idle.

    How it is detected
    ------------------
    GPM counters give the mean share of active multiprocessors, NVML the peak memory. Both must be
    below 20 %, while at least 80 % of the step is useful compute (without recorded kernels: time
    with kernels according to NVML). The finding is a note: no step becomes faster.

    What looks alike
    ----------------
    A GPU that waits also has low activity; its cause is reported instead. If a larger batch would
    fill the card, ``batch-too-small`` is reported.

    What to do
    ----------
    Use a MIG slice or a smaller GPU, several runs on one card (for example a hyperparameter
    search), or a larger batch if convergence allows.

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
