"""The host runs out of memory, and processes wait for pages."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import predict_removal
from whyidle.analysis.memory_pressure import LEAST, fills_its_group, memory_waits, read_again
from whyidle.analysis.telemetry_window import TelemetryWindow
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
    Memory of the host, or of the job's control group, is so full that the kernel takes pages away
    and processes wait until they are back; some may be killed.

    Why it costs
    ------------
    Loader workers and the training process stand still for storage in the middle of computing.

    How it is detected
    ------------------
    The kernel's own account of waiting (PSI) over the steps in scope: time in which some, and in
    which all, tasks waited for memory; of the job's control group where that tells it (version 2),
    else of the machine if the job holds a quarter of its memory, or if the job's control group is
    full: at its limit, while the machine has memory to spare, and either most page faults on the
    machine that wait for storage are the job's, or half of what it reads had been in memory before.
    Of a full group the waiting for storage and the kernel's work count at most, too, as far as
    content is read again.
    All of it counts only while the job waits for data: between the share in which all tasks waited
    for memory and that in which some did. Of a command without steps all of it counts.

    What looks alike
    ----------------
    Reading a data set larger than memory for the first time also faults pages in, but nobody waits
    for *memory* then, only for storage; reading it in every epoch, with no limit that the machine
    could lift, is ``page-cache-thrash``. A loader without workers, or with few, is waited for as
    well; where most of that wait is one for memory, more workers would only need more of it.

    What to do
    ----------
    Fewer workers or a smaller prefetch factor, arrays instead of Python lists in the data set (each
    worker copies what it touches), smaller pinned buffers, or more memory.

    References
    ----------
    Linux, "PSI - Pressure Stall Information"; PyTorch, issue 13246 (memory of workers).
    """
    outside = facts.telemetry
    shares = memory_waits(outside)
    if outside is None or shares is None or shares[1] < LEAST:
        return None
    waited = facts.bucket_share("unknown" if facts.has_no_steps else "input")
    high = min(shares[1], waited)
    low = min(shares[0], high)
    return Proof(
        headline=f"Processes wait for memory of the host {shares[1]:.0%} of the time",
        low=low,
        high=high,
        predicted=predict_removal(
            low, high, "PSI: without the time in which tasks waited for memory"
        ),
        evidence=_pressure_evidence(outside, shares),
        confidence=0.7,
        bucket="unknown" if facts.has_no_steps else None,
    )


def _pressure_evidence(
    outside: TelemetryWindow, shares: tuple[float, float]
) -> tuple[Evidence, ...]:
    kills = (outside.counter_growth("group_out_of_memory_kills") or 0.0) + (
        outside.counter_growth("machine_out_of_memory_kills") or 0.0
    )
    faults = outside.counter_growth("job_faults_major") or 0.0
    return (
        make_evidence(
            "time in which some tasks waited for memory", shares[1], "ratio", source="PSI"
        ),
        make_evidence("time in which all did", shares[0], "ratio", source="PSI"),
        make_evidence("page faults that waited for storage", faults, None, source="/proc"),
        make_evidence("processes killed for want of memory", kills, None, source="/proc, cgroup"),
        *(_control_group_evidence(outside) if fills_its_group(outside) else ()),
    )


def _control_group_evidence(outside: TelemetryWindow) -> tuple[Evidence, ...]:
    """How full the job's control group is, and what that does."""
    asked = {
        "memory of the job's control group": "group_memory_bytes",
        "of it, page cache": "group_memory_file_bytes",
        "its limit": "group_memory_limit_bytes",
    }
    told = {quantity: outside.mean_value(signal) for quantity, signal in asked.items()}
    again = make_evidence(
        "share of what is read that was in memory before", read_again(outside), "ratio",
        source="cgroup, /proc",
    )  # fmt: skip
    known = ((quantity, value) for quantity, value in told.items() if value is not None)
    return again, *(make_evidence(name, value, "bytes", source="cgroup") for name, value in known)
