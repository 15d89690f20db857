"""The host runs out of memory, and processes wait for pages."""

from __future__ import annotations

from whyidle.analysis.evidence import measured
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import remove
from whyidle.analysis.outside import Outside
from whyidle.model.cause import Proof, cause

LEAST_SHARE = 0.03
"""share of the time in which tasks wait for memory that is worth a word"""
OWN = 0.25
"""share of the machine's memory from which on its pressure is likely the job's own doing"""


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
    which all, tasks waited for memory; of the job's control group where there is one, else of the
    machine if the job holds a quarter of its memory. It counts only while the job waits for data,
    and at most that: between the share in which all waited and that in which some did. Of a command
    without steps all of it counts.

    What looks alike
    ----------------
    Reading a data set larger than memory for the first time also faults pages in, but nobody waits
    for *memory* then, only for storage.

    What to do
    ----------
    Fewer workers or a smaller prefetch factor, arrays instead of Python lists in the data set (each
    worker copies what it touches), smaller pinned buffers, or more memory.

    References
    ----------
    Linux, "PSI - Pressure Stall Information"; PyTorch, issue 13246 (memory of workers).
    """
    outside = facts.outside
    shares = _waits(outside) if outside else None
    if outside is None or shares is None or shares[1] < LEAST_SHARE:
        return None
    waited = facts.share("unknown" if facts.stepless else "input")
    high = min(shares[1], waited)
    low = min(shares[0], high)
    kills = (outside.grown("group_out_of_memory_kills") or 0.0) + (
        outside.grown("machine_out_of_memory_kills") or 0.0
    )
    return Proof(
        headline=f"Processes wait for memory of the host {shares[1]:.0%} of the time",
        low=low,
        high=high,
        predicted=remove(low, high, "PSI: without the time in which tasks waited for memory"),
        evidence=(
            measured(
                "time in which some tasks waited for memory", shares[1], "ratio", source="PSI"
            ),
            measured("time in which all did", shares[0], "ratio", source="PSI"),
            measured("page faults that waited for storage", _faults(outside), None, source="/proc"),
            measured("processes killed for want of memory", kills, None, source="/proc, cgroup"),
        ),
        confidence=0.7,
        bucket="unknown" if facts.stepless else None,
    )


def _waits(outside: Outside) -> tuple[float, float] | None:
    """Shares of the window in which all, and some, tasks waited."""
    for scope in ("group_", ""):
        some = outside.rate(f"{scope}pressure_memory_some_s")
        if some is None or not (scope or _holds(outside)):
            continue
        full = outside.rate(f"{scope}pressure_memory_full_s") or 0.0
        return min(full, some, 1.0), min(some, 1.0)
    return None


def _holds(outside: Outside) -> bool:
    whole, own = outside.mean("machine_memory_bytes"), outside.most("job_memory_resident_bytes")
    return bool(whole and own and own >= OWN * whole)


def _faults(outside: Outside) -> float:
    return outside.grown("job_faults_major") or 0.0
