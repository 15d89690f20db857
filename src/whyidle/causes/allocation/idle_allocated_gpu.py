"""The job sees more GPUs than it has processes for."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.forecast import predict_removal
from whyidle.analysis.job import Job
from whyidle.analysis.telemetry_window import TelemetryWindow
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence, Predicted
from whyidle.model.proof_facts import AllocationFacts

SCALING = 0.9
"""expected efficiency of spreading a job over all devices of one host"""


@cause(
    "Visible GPUs that the job does not use",
    bucket="unknown",
    needs=("device_use",),
    scope="job",
    direct=True,
)
def idle_allocated_gpu(job: Job) -> Proof | None:
    """What it means
    ----------------
    The process could see more GPUs than the whole job has processes, and its work ran on fewer.

    Why it costs
    ------------
    The other GPUs idle for as long as the job runs, if nobody else uses them.

    How it is detected
    ------------------
    The recording lists the visible devices and how many processes the job has. Devices with work
    in a process, times processes, are fewer than the devices listed on one host. Where the job was
    watched, NVML tells more directly: visible GPUs on which no kernel ran and no process computes,
    beside others that worked. It costs no time of the GPU that was recorded, so it takes no share
    of the step and is a remark, not a verdict. Of a command without any step, GPUs none of which
    did anything are idle for all of its time: that is what could be given back.

    What looks alike
    ----------------
    One rank of a job that spans all devices sees them all too: there the number of processes
    covers them. Without that number the recording proves nothing. Another job may use the rest:
    only the scheduler or a look at all devices can tell.

    What to do
    ----------
    Start one process per GPU, or ask for fewer GPUs.

    References
    ----------
    Gao et al., "An Empirical Study on Low GPU Utilization of Deep Learning Jobs", ICSE 2024;
    PyTorch, ``torchrun --nproc-per-node``.
    """
    outside = job.lead_rank.telemetry
    stepless = job.lead_rank.has_no_steps
    if outside is not None and len(outside.gpus) > (0 if stepless else 1):
        return _prove_from_telemetry(outside, stepless=stepless)
    return _prove_from_recordings(job)


def _prove_from_recordings(job: Job) -> Proof | None:
    """From what recordings say of devices and processes."""
    listed = min(facts.timeline.info.count for facts in job.ranks)
    world = max(facts.timeline.world_size or 0 for facts in job.ranks)
    each = max(len(facts.devices) for facts in job.ranks)
    used = world * max(each, 1)
    if not 0 < used < listed:
        return None
    evidence = (
        make_evidence("visible devices", listed, None, source="deviceProperties"),
        make_evidence("processes of the job", world, None, source="distributedInfo"),
        make_evidence("devices with work in a recorded process", each, None, source="kernels"),
    )
    return _make_proof(used, listed, evidence)


def _none_used(count: int, evidence: tuple[Evidence, ...]) -> Proof:
    """A command without steps, all of whose GPUs did nothing while it ran."""
    each = "The GPU" if count == 1 else f"None of the {count} GPUs"
    return Proof(
        headline=f"{each} that the command can see {'ran no' if count == 1 else 'ran a'} kernel",
        low=0.0,
        high=1.0,
        predicted=predict_removal(0.0, 1.0, "the time for which the GPUs would be free"),
        evidence=evidence,
        confidence=0.6,
        bucket="unknown",
    )


def _prove_from_telemetry(outside: TelemetryWindow, *, stepless: bool) -> Proof | None:
    """From what NVML told of every GPU that the job sees."""
    busy = {gpu: outside.mean_value("busy_ratio", gpu) for gpu in outside.gpus}
    most = {gpu: outside.highest_value("processes", gpu) for gpu in outside.gpus}
    idle = [gpu for gpu in outside.gpus if busy[gpu] == 0.0 and not (most[gpu] or 0)]
    used = len(outside.gpus) - len(idle)
    if not idle:
        return None
    evidence = (
        make_evidence("visible devices", len(outside.gpus), None, source="NVML"),
        make_evidence("of them without any kernel or process", len(idle), None, source="NVML"),
    )
    if not used:
        return _none_used(len(idle), evidence) if stepless else None
    return _make_proof(used, len(outside.gpus), evidence)


def _make_proof(used: int, listed: int, evidence: tuple[Evidence, ...]) -> Proof:
    most = listed / used
    return Proof(
        headline=f"The job runs on {used} of {listed} GPUs that it can see",
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
