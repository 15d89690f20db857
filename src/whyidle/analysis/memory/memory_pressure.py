"""How long a job waited for host memory, by the kernel's pressure records (PSI)."""

from __future__ import annotations

from whyidle.analysis.host.telemetry_window import TelemetryWindow
from whyidle.analysis.steps.step_scope import StepScope
from whyidle.model.cause import MOSTLY

OWN = 0.25
"""from this share of the machine's memory its pressure is likely the job's own"""
FULL = 0.95
"""share of its limit from which a control group is full, as the kernel reclaims in batches"""
AMPLE = 0.1
"""available share of the memory from which the machine itself is not short: the kernel begins to
reclaim at some thousandths (``vm.watermark_scale_factor``)"""
LEAST = 0.03
"""least share of the time waiting for memory that is reported"""

MemoryWaits = tuple[float, float]
"""shares of the window in which all, and some, tasks waited"""


def memory_waits(outside: TelemetryWindow | None) -> MemoryWaits | None:
    """Return the waits of the job's control group, else of the machine if the job causes them."""
    if outside is None:
        return None
    crowded = fills_its_group(outside)
    own = _memory_waits(outside, "group_", crowded=crowded)
    if own is not None:
        return own
    return _memory_waits(outside, "", crowded=crowded) if crowded or _holds_pages(outside) else None


def _memory_waits(outside: TelemetryWindow, scope: str, *, crowded: bool) -> MemoryWaits | None:
    """The kernel counts waits for pages that were in use when reclaimed. In a full group every page
    read again was, so its share in reads counts of storage waits and kernel work."""
    some_s = outside.counter_rate(f"{scope}pressure_memory_some_s")
    if some_s is None:
        return None
    full_s = outside.counter_rate(f"{scope}pressure_memory_full_s") or 0.0
    reading = outside.summed_rate(f"{scope}pressure_io_some_s", "job_cpu_system_s") or 0.0
    most = max(some_s, reading * read_again(outside)) if crowded else some_s
    return min(full_s, most, 1.0), min(most, 1.0)


def _holds_pages(outside: TelemetryWindow) -> bool:
    total = outside.mean_value("machine_memory_bytes")
    own = outside.highest_value("job_memory_resident_bytes")
    return bool(total and own and own >= OWN * total)


def fills_its_group(outside: TelemetryWindow) -> bool:
    """Return whether the job's control group is at its limit while the machine has memory, and the
    job reads much of its data again or has most of the machine's major faults. A full group alone
    proves nothing, as the page cache fills every limit."""
    used = outside.mean_value("group_memory_bytes")
    limit = outside.mean_value("group_memory_limit_bytes")
    total = outside.mean_value("machine_memory_bytes")
    available = outside.mean_value("machine_memory_available_bytes")
    if not (used and limit and total and available is not None):
        return False
    job_faults = outside.counter_growth("job_faults_major")
    all_faults = outside.counter_growth("machine_faults_major")
    faults = bool(job_faults and all_faults and job_faults >= MOSTLY * all_faults)
    suffers = faults or read_again(outside) >= MOSTLY
    return used >= FULL * limit and available >= AMPLE * total and suffers


def read_again(outside: TelemetryWindow) -> float:
    """Return the share of the job's reads that its control group had lost from memory."""
    again = outside.counter_growth("group_read_again_bytes")
    read = outside.counter_growth("job_read_bytes")
    return min(again / read, 1.0) if again and read else 0.0


def waits_for_memory(facts: StepScope, waiting: float) -> bool:
    """Return whether a wait of this share of the step is mostly one for memory."""
    waits = memory_waits(facts.telemetry)
    return waits is not None and waits[1] >= max(LEAST, MOSTLY * waiting)
