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
    Memory of the host, or of the job's control group, is so full that the kernel reclaims pages and
    processes wait until they are read back. The kernel may kill some processes.

    Why it costs
    ------------
    Loader workers and the training process wait for storage in the middle of computing.

    How it is detected
    ------------------
    The kernel's pressure stall information (PSI) over the steps in scope gives the time in which
    some, and in which all, tasks waited for memory. It is that of the job's control group if
    available (version 2). Otherwise it is that of the machine, if the job holds a quarter of its
    memory or the job's control group is full. A group is full if it is at its limit while the
    machine has free memory, and either most of the machine's page faults that wait for storage are
    the job's, or half of what the job reads had been in memory before. For a full group, the upper
    end includes waiting for storage and the kernel's work, as far as content is read again.

    This time counts only while the job waits for data: the low end is the share in which all tasks
    waited for memory, the high end that in which some did. For a command without steps all of it
    counts.

    What looks alike
    ----------------
    Reading a data set larger than memory for the first time also causes page faults, but processes
    then wait for storage, not for memory. Reading it in every epoch, without a limit that could be
    raised, is ``page-cache-thrash``. A loader with few or no workers makes the job wait too; if
    most of that wait is for memory, more workers would only need more memory.

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
        low=low,
        high=high,
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
