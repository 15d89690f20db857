"""CPU and memory limits of this process's control group, version 1 or 2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

_UNLIMITED = 1 << 60  # version 1 writes a number near 2**63 if there is no limit


def core_quota(root: Path) -> float | None:
    """The tightest CPU quota over the group and its ancestors, in cores; None without one."""
    found = [_quota_v2(path) for path in _group_folders(root, "cpu", version=2)]
    found += [_quota_v1(path) for path in _group_folders(root, "cpu", version=1)]
    return min((value for value in found if value is not None), default=None)


def memory_bytes(root: Path) -> int | None:
    """The tightest memory limit over the group and its ancestors; None without one."""
    found = [
        _read_number(path / "memory.max") for path in _group_folders(root, "memory", version=2)
    ]
    found += [
        _read_number(path / "memory.limit_in_bytes")
        for path in _group_folders(root, "memory", version=1)
    ]
    return min((value for value in found if value is not None and value < _UNLIMITED), default=None)


def _group_folders(root: Path, controller: str, *, version: int) -> Iterator[Path]:
    """The folders of this process's group and its ancestors. In a container the kernel's path may
    lie outside the mount; then the top of the mount is the group."""
    mount = root / "sys/fs/cgroup" / ("" if version == 2 else controller)
    path = _group_path(root, controller if version == 1 else "")
    if path is None:
        return
    folder = mount / path.lstrip("/")
    while folder != mount and mount in folder.parents:
        yield folder
        folder = folder.parent
    yield mount


def _group_path(root: Path, controller: str) -> str | None:
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon and controller in controllers.split(","):
            return path
    return None


def _quota_v2(folder: Path) -> float | None:
    return _read_parsed(folder / "cpu.max", lambda text: _quota_ratio(*text.split()[:2]))


def _quota_v1(folder: Path) -> float | None:
    quota, period = (
        _read_number(folder / "cpu.cfs_quota_us"),
        _read_number(folder / "cpu.cfs_period_us"),
    )
    return quota / period if quota and quota > 0 and period else None


def _quota_ratio(quota: str, period: str) -> float | None:
    return None if quota == "max" else int(quota) / int(period)


def _read_number(path: Path) -> int | None:
    return _read_parsed(path, lambda text: None if text == "max" else int(text))


def _read_parsed(path: Path, parse: Callable[[str], float | int | None]) -> int | None:
    try:
        return parse(path.read_text(encoding="utf-8").strip())  # type: ignore[return-value]
    except (OSError, ValueError, TypeError, ZeroDivisionError):
        return None
