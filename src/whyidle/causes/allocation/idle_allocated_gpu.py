"""The job leaves visible GPUs unused."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.host.telemetry_window import TelemetryWindow
from whyidle.analysis.ranks.job import Job
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence, Predicted
from whyidle.model.proof_facts import AllocationFacts

SCALING = 0.9
"""expected parallel efficiency over all devices of one host"""


@cause(
    "The job leaves visible GPUs unused",
    bucket="unknown",
    needs=("device_use",),
    scope="job",
    direct=True,
)
def idle_allocated_gpu(job: Job) -> Proof | None:
    """What it means
    ----------------
    The process sees more GPUs than the job uses.

    Why it costs
    ------------
    The other GPUs are idle while the job runs, unless another job uses them.

    How it is detected
    ------------------
    Trace: the number of processes times the devices with work per process is smaller than the
    number of visible devices. Watched job: NVML reports visible GPUs without kernels or processes
    while others work. The finding is a note, because it costs the job no time. For a command
    without steps whose GPUs are all idle, the upper bound is the whole time.

    What looks alike
    ----------------
    A rank of a job that uses all devices also sees all of them, but the number of processes shows
    that they are used. Without that number, nothing is reported. Another job may use the remaining
    GPUs, which only the scheduler or telemetry of all devices shows.

    What to do
    ----------
    Start one process per GPU, or request fewer GPUs.

    References
    ----------
    Gao et al., "An Empirical Study on Low GPU Utilization of Deep Learning Jobs", ICSE 2024;
    PyTorch, ``torchrun --nproc-per-node``.
    """
    telemetry = job.lead_rank.telemetry
    stepless = job.lead_rank.has_no_steps
    if telemetry is not None and len(telemetry.gpus) > (0 if stepless else 1):
        return _prove_from_telemetry(telemetry, stepless=stepless)
    return _prove_from_recordings(job)


def _prove_from_recordings(job: Job) -> Proof | None:
    listed = min(facts.timeline.info.count for facts in job.ranks)
    world = max(facts.timeline.world_size or 0 for facts in job.ranks)
    per_process = max(len(facts.devices) for facts in job.ranks)
    used = world * max(per_process, 1)
    if not 0 < used < listed:
        return None
    evidence = (
        make_evidence("visible devices", listed, None, source="deviceProperties"),
        make_evidence("processes of the job", world, None, source="distributedInfo"),
        make_evidence("devices used by a recorded process", per_process, None, source="kernels"),
    )
    return _make_proof(used, listed, evidence)


def _prove_from_telemetry(telemetry: TelemetryWindow, *, stepless: bool) -> Proof | None:
    """Prove it from NVML's account of every GPU that the job sees."""
    count = len(telemetry.gpus)
    used = sum(
        telemetry.mean_value("busy_ratio", gpu) != 0.0
        or bool(telemetry.highest_value("processes", gpu))
        for gpu in telemetry.gpus
    )
    idle = count - used
    if not idle:
        return None
    evidence = (
        make_evidence("visible devices", count, None, source="NVML"),
        make_evidence("devices without kernels or processes", idle, None, source="NVML"),
    )
    if used:
        return _make_proof(used, count, evidence)
    if not stepless:
        return None
    gpus = "The visible GPU ran no" if count == 1 else f"None of the {count} visible GPUs ran a"
    return Proof(
        headline=f"{gpus} kernel",
        low=0.0,
        high=1.0,
        predicted=predict_removal(0.0, 1.0, "the time for which the GPUs would be free"),
        evidence=evidence,
        confidence=0.6,
        bucket="unknown",
    )


def _make_proof(used: int, listed: int, evidence: tuple[Evidence, ...]) -> Proof:
    most = listed / used
    return Proof(
        headline=f"The job uses {used} of {listed} visible GPUs",
        low=0.0,
        high=0.0,
        predicted=Predicted(
            speedup=max(1.0, most * SCALING),
            low=1.0,
            high=most,
            method="P7: work spread over all visible GPUs, if they are free",
        ),
        evidence=evidence,
        confidence=0.6,
        facts=AllocationFacts(used=used, listed=listed),
    )
