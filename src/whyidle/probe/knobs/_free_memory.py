"""Measures how much memory this process may still take."""

from __future__ import annotations

from pathlib import Path

GROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
"""limit and use of the control group that a container sees as its own"""


def free_bytes() -> int:
    """Return the memory that the machine and the control group have left; a large number if
    unknown. Cached files count as used by the group: careful rather than exact."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        limits = [int(x.split()[1]) << 10 for x in lines if x.startswith("MemAvailable:")]
    except (OSError, ValueError):
        limits = []
    limits += [_group_left(limit, used) for limit, used in GROUPS]
    return max(min(limits), 0)


def _group_left(limit: str, used: str) -> int:
    try:
        return int(Path(limit).read_text("ascii")) - int(Path(used).read_text("ascii"))
    except (OSError, ValueError):  # there is none, or it is "max"
        return 1 << 62
