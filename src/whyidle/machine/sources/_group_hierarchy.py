"""Location of a process's control groups, version 1 and 2, on Linux."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from whyidle.machine.sources._open_file import OpenFile, parse_count, read_text

_UNLIMITED: Final = 1 << 60
"""version 1 writes a number near 2**63 for no limit"""
_MEMORY_FILES: Final = {
    2: ("memory.current", "memory.stat", "memory.max"),
    1: ("memory.usage_in_bytes", "memory.stat", "memory.limit_in_bytes"),
}


class GroupHierarchy:
    """The control groups of a process up to the top, of both versions. In a container the group's
    path may be outside the mount, whose top then is the group."""

    def __init__(self, root: Path, pid: int) -> None:
        self._mount = root / "sys/fs/cgroup"
        self._paths: dict[str, str] = {}
        for line in read_text(root / f"proc/{pid or 'self'}/cgroup").splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            self._paths.update(dict.fromkeys(controllers.split(","), path))
        self.unified = next(iter(self._group_folders("", "")), None)

    def _group_folders(self, controller: str, below: str) -> Iterator[Path]:
        if controller not in self._paths:
            return
        mount = self._mount / below
        folder = mount / self._paths[controller].lstrip("/")
        while folder != mount and mount in folder.parents:
            if folder.is_dir():
                yield folder
            folder = folder.parent
        if mount.is_dir():
            yield mount

    def quota_files(self) -> tuple[tuple[OpenFile, ...] | None, OpenFile | None, int]:
        """Return the files of the tightest quota, of its throttling, and their version."""
        quotas: list[tuple[float, tuple[OpenFile, ...], Path, int]] = []
        stats: list[tuple[Path, int]] = []
        for version, below, names in (
            (2, "", ("cpu.max",)),
            (1, "cpu", ("cpu.cfs_quota_us", "cpu.cfs_period_us")),
        ):
            for folder in self._group_folders("" if version == 2 else "cpu", below):
                stats.append((folder, version))
                files = tuple(OpenFile(folder / name) for name in names)
                cores = quota_cores(files)
                if cores is None:
                    _close_files(files)
                else:
                    quotas.append((cores, files, folder, version))
        quotas.sort(key=lambda quota: quota[0])
        for _, files, _, _ in quotas[1:]:
            _close_files(files)
        if quotas:
            _, files, folder, version = quotas[0]
            return files, OpenFile(folder / "cpu.stat"), version
        for folder, version in stats:
            file = OpenFile(folder / "cpu.stat")
            if b"nr_throttled" in (file.read() or b""):
                return None, file, version
            file.close()
        return None, None, 0

    def cpuset_cores(self) -> int | None:
        """Return the number of cores in the cpuset of the innermost group that has one."""
        for controller, below, name in (
            ("", "", "cpuset.cpus.effective"),
            ("cpuset", "cpuset", "cpuset.effective_cpus"),
            ("cpuset", "cpuset", "cpuset.cpus"),
        ):
            for folder in self._group_folders(controller, below):
                if cores := count_cores(read_text(folder / name)):
                    return cores
        return None

    def memory_files(self) -> tuple[OpenFile | None, dict[str, OpenFile]]:
        """Return the file of the tightest limit, and the files of that group's use."""
        best: tuple[int, Path, int] | None = None
        leaf: tuple[int, Path, int] | None = None
        for version, controller, below in ((2, "", ""), (1, "memory", "memory")):
            for folder in self._group_folders(controller, below):
                if not (folder / _MEMORY_FILES[version][0]).exists():
                    continue
                leaf = leaf or (_UNLIMITED, folder, version)
                text = read_text(folder / _MEMORY_FILES[version][2])
                limit = finite_limit(parse_count(text.encode()))
                if limit is not None and (best is None or limit < best[0]):
                    best = limit, folder, version
        chosen = best or leaf
        if chosen is None:
            return None, {}
        _, folder, version = chosen
        used, stat, limited = (folder / name for name in _MEMORY_FILES[version])
        files = {"used": OpenFile(used), "stat": OpenFile(stat)}
        return (OpenFile(limited) if best else None), files


def quota_cores(files: tuple[OpenFile, ...] | None) -> float | None:
    """Return the quota in cores, from one file (version 2) or two (version 1)."""
    if not files:
        return None
    words = b" ".join(file.read() or b"" for file in files).split()
    if len(words) != 2 or not (words[0].isdigit() and words[1].isdigit()) or int(words[1]) == 0:
        return None
    return int(words[0]) / int(words[1]) or None


def count_cores(listed: str) -> int | None:
    """Return how many cores a list of ranges (``0-3,8``) names; None if it is none."""
    bounds = [part.partition("-")[::2] for part in listed.split(",")]
    if not all(low.isdigit() and (not high or high.isdigit()) for low, high in bounds):
        return None
    return sum(int(high or low) - int(low) + 1 for low, high in bounds)


def finite_limit(limit: int | None) -> int | None:
    """Return a limit; None for one that does not limit."""
    return limit if limit is not None and limit < _UNLIMITED else None


def _close_files(files: tuple[OpenFile, ...]) -> None:
    for file in files:
        file.close()
