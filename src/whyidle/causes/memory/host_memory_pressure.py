"""The host runs short of memory, and processes wait for pages."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.telemetry_window import TelemetryWindow
from whyidle.analysis.memory.memory_pressure import LEAST, fills_its_group, memory_waits, read_again
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence


@cause(
    "The host is short of memory",
    bucket="input",
    needs=("host_telemetry", "steady_steps"),
    watched=("host_telemetry", "stepless"),
)
def host_memory_pressure(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Host memory, or the memory of the job's control group, is nearly exhausted. The kernel reclaims
    pages, processes wait until these are read back, and some may be killed.

    Why it costs
    ------------
    Loader workers and the training process wait for storage in the middle of computing.

    How it is detected
    ------------------
    The kernel's pressure stall information (PSI) gives the time in which some, and in which all,
    tasks waited for memory. It must be at least 3 %, and counts at most as much as the job's wait
    for data. The lower bound is the time in which all tasks waited, the upper bound the time in
    which some did. In a full group, the upper bound includes waits to read data again.

    whyidle reads the PSI of the job's control group (version 2), or else that of the machine. The
    latter counts only if the job holds a quarter of the machine's memory, or if its group is full
    while the machine has free memory. A group counts as full only if the job has most of the
    machine's major page faults, or reads half of its data again.

    What looks alike
    ----------------
    The first read of a data set larger than memory waits for storage, not for memory. Reading it
    again in every epoch is reported as ``remote-storage-fetch-stall``. A loader with too few
    workers also makes the job wait. If that wait is mostly for memory, more workers do not help.

    What to do
    ----------
    Use fewer workers or a smaller prefetch factor, arrays instead of Python lists in the data set
    (each worker copies what it touches), smaller pinned buffers, or more memory.

    References
    ----------
    Linux, "PSI - Pressure Stall Information"; PyTorch, issue 13246 (memory of workers).
    """
    telemetry = facts.telemetry
    shares = memory_waits(telemetry)
    if telemetry is None or shares is None or shares[1] < LEAST:
        return None
    waiting = facts.bucket_share("unknown" if facts.has_no_steps else "input")
    high = min(shares[1], waiting)
    low = min(shares[0], high)
    method = "PSI: without the time in which tasks waited for memory"
    return Proof(
        headline=f"Processes wait for host memory {shares[1]:.0%} of the time",
        predicted=predict_removal(low, high, method),
        evidence=_pressure_evidence(telemetry, *shares),
        confidence=0.7,
        bucket="unknown" if facts.has_no_steps else None,
    )


def _pressure_evidence(
    telemetry: TelemetryWindow, every: float, some: float
) -> tuple[Evidence, ...]:
    kills = sum(
        telemetry.counter_growth(f"{owner}_out_of_memory_kills") or 0.0
        for owner in ("group", "machine")
    )
    faults = telemetry.counter_growth("job_faults_major") or 0.0
    return (
        make_evidence("time with some tasks waiting for memory", some, "ratio", source="PSI"),
        make_evidence("time with all tasks waiting for memory", every, "ratio", source="PSI"),
        make_evidence("page faults that waited for storage", faults, None, source="/proc"),
        make_evidence("processes killed for lack of memory", kills, None, source="/proc, cgroup"),
        *(_control_group_evidence(telemetry) if fills_its_group(telemetry) else ()),
    )


def _control_group_evidence(telemetry: TelemetryWindow) -> tuple[Evidence, ...]:
    signals = {
        "memory of the job's control group": "group_memory_bytes",
        "page cache of the job's control group": "group_memory_file_bytes",
        "limit of the job's control group": "group_memory_limit_bytes",
    }
    name, share = "share of reads that were in memory before", read_again(telemetry)
    evidence = [make_evidence(name, share, "ratio", source="cgroup, /proc")]
    for quantity, signal in signals.items():
        if (value := telemetry.mean_value(signal)) is not None:
            evidence.append(make_evidence(quantity, value, "bytes", source="cgroup"))
    return tuple(evidence)
