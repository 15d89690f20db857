"""How long a job waited for memory of the host, by the kernel's own account (PSI)."""

from __future__ import annotations

from whyidle.analysis.step_scope import StepScope
from whyidle.analysis.telemetry_window import TelemetryWindow

OWN = 0.25
"""share of the machine's memory from which on its pressure is likely the job's own doing"""
FULL = 0.95
"""share of its limit from which on a control group is full: the kernel takes pages back in batches,
so that the use swings some per cent below the limit"""
AMPLE = 0.1
"""share of the machine's memory that is to be had where the machine itself is not short: the kernel
begins to take pages back when some thousandths are left (``vm.watermark_scale_factor``)"""
LEAST = 0.03
"""share of the time in which tasks wait for memory that is worth a word"""
MOSTLY = 0.5
"""share from which on a wait is one for memory and not for what is read or made, faults of the
machine are the job's, and what it reads is what it had lost"""

MemoryWaits = tuple[float, float]
"""shares of the window in which all, and some, tasks waited"""


def memory_waits(outside: TelemetryWindow | None) -> MemoryWaits | None:
    """Of the job's control group where the kernel tells it; else of the machine, where the job is
    what it waits for. None where that is not known."""
    if outside is None:
        return None
    crowded = fills_its_group(outside)
    own = _memory_waits(outside, "group_", crowded=crowded)
    if own is not None:
        return own
    return _memory_waits(outside, "", crowded=crowded) if crowded or _holds_pages(outside) else None


def _memory_waits(outside: TelemetryWindow, scope: str, *, crowded: bool) -> MemoryWaits | None:
    """The kernel counts only pages as waited for in want of memory that were in use when they were
    taken away. In a group that is full, whatever is read again is; so at most its share in what is
    read counts, too, of the waiting for storage and of the kernel's work for the job."""
    some = outside.counter_rate(f"{scope}pressure_memory_some_s")
    if some is None:
        return None
    full = outside.counter_rate(f"{scope}pressure_memory_full_s") or 0.0
    reading = outside.summed_rate(f"{scope}pressure_io_some_s", "job_cpu_system_s") or 0.0
    most = max(some, reading * read_again(outside)) if crowded else some
    return min(full, most, 1.0), min(most, 1.0)


def _holds_pages(outside: TelemetryWindow) -> bool:
    whole, own = (
        outside.mean_value("machine_memory_bytes"),
        outside.highest_value("job_memory_resident_bytes"),
    )
    return bool(whole and own and own >= OWN * whole)


def fills_its_group(outside: TelemetryWindow) -> bool:
    """Whether the job's control group is at its limit while the machine has memory to spare, and it
    is the job that suffers from that: it reads again much of what it reads, or most page faults on
    the machine that waited for storage are its own. Groups of version 1 tell no pressure of
    their own, but what they wait counts in the machine's. A full group alone says nothing: page
    cache fills every limit."""
    used, limit = (
        outside.mean_value("group_memory_bytes"),
        outside.mean_value("group_memory_limit_bytes"),
    )
    whole = outside.mean_value("machine_memory_bytes")
    left = outside.mean_value("machine_memory_available_bytes")
    if not (used and limit and whole and left is not None):
        return False
    mine, every = (
        outside.counter_growth("job_faults_major"),
        outside.counter_growth("machine_faults_major"),
    )
    faults = bool(mine and every and mine >= MOSTLY * every)
    suffers = faults or read_again(outside) >= MOSTLY
    return used >= FULL * limit and left >= AMPLE * whole and suffers


def read_again(outside: TelemetryWindow) -> float:
    """Share of what the job reads from storage that its control group had in memory before, and
    lost; 0 where that is not told."""
    again, read = (
        outside.counter_growth("group_read_again_bytes"),
        outside.counter_growth("job_read_bytes"),
    )
    return min(again / read, 1.0) if again and read else 0.0


def waits_for_memory(facts: StepScope, waiting: float) -> bool:
    """Whether a wait of this share of the step is mostly one for memory: neither workers nor
    cheaper samples shorten it."""
    found = memory_waits(facts.telemetry)
    return found is not None and found[1] >= max(LEAST, MOSTLY * waiting)
