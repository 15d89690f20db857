"""Isolation without namespaces: Python redirects writes, and Landlock denies all others.

Containers usually allow no mounts, but on most kernels a process may restrict itself with Landlock.
Without Landlock, only the redirection in Python remains.
"""

from __future__ import annotations

import json
import marshal
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

from whyidle.fix.isolation import disk_space, mounts, network, shared_memory, stale_folders
from whyidle.fix.isolation.backend import GUEST, IsolationRequest, UnavailableError, try_start

FENCE = Path(__file__).with_name("landlock_launcher.py")
OPEN = "open"  # output of the launcher if programs can connect to any port
FIRST_PORT, LAST_PORT = 1024, 65535
SERVICES = (1433, 1521, 3128, 3306, 4317, 4318, 5000, 5432, 5672, 6379, 8000, 8080, 8086, 8443)
MORE_SERVICES = (8883, 8888, 9000, 9042, 9091, 9092, 9200, 9443, 11211, 27017)
"""usual ports of databases, trackers, queues and proxies. Landlock restricts ports, not addresses:
these and all below 1024 are denied, and ranks can communicate at any other port"""


class LandlockBackend:
    """Gives each command its own layers, with or without Landlock (``level``).

    Raises:
        UnavailableError: Landlock is requested, but not available.
    """

    def __init__(self, asked: IsolationRequest, level: Literal["landlock", "python"]) -> None:
        self.level: Literal["landlock", "python"] = level
        self._asked = asked
        self._commands = 0
        self.made = [stale_folders.mark_folder(tempfile.mkdtemp(prefix="whyidle-"))]
        """for temporary files; a short path, because of the sockets of loader workers"""
        self._shelf = self._best_place()
        self.sends = asked.closed
        self._leftovers: list[shared_memory.SharedMemoryLeftovers] = []
        if level == "landlock":
            try:
                self._try_landlock()
            except UnavailableError:
                for folder in self.made:
                    shutil.rmtree(folder, ignore_errors=True)
                raise

    def _best_place(self) -> Path:
        places = [self._asked.scratch, *map(Path, disk_space.roomy_places())]
        best = disk_space.best_first(places)[0]
        if best == self._asked.scratch:
            return best
        self.made.append(stale_folders.mark_folder(tempfile.mkdtemp(prefix="whyidle-", dir=best)))
        return self.made[-1]

    def command(self, words: Sequence[str]) -> list[str]:
        """Wrap the command with its own layers."""
        self._commands += 1
        return [*self._launcher_words(f"{self._commands}"), *words]

    def _launcher_words(self, name: str) -> list[str]:
        scratch = self._asked.scratch
        layers = self._shelf / name
        temporary = self.made[0] / name
        for each in (layers / "processes", temporary):
            each.mkdir(parents=True)
        _link_root(layers / "upper")
        left = [str(each) for each in (scratch, self._shelf, temporary, *self._asked.real)]
        left += [each for each in mounts.SERVICES if Path(each).exists()]
        names = shared_memory.list_names()
        self._leftovers.append(shared_memory.SharedMemoryLeftovers(layers / "processes", names))
        taken = network.taken_ports(os.environ) if self._asked.closed else []
        guest = {
            **self._asked.guest_request(),
            "layers": str(layers),
            "left": left,
            "taken": taken,
            "refuse": self._asked.closed,
            "programs": True,
        }
        path = scratch / f"{name}.json"
        path.write_text(json.dumps(guest), encoding="utf-8")
        plan = {
            "environment": {
                GUEST: str(path),
                "TMPDIR": str(temporary),
                "TRITON_CACHE_DIR": str(temporary / "triton"),
            },
            "writable": [*left, shared_memory.SHARED, "/proc"]
            if self.level == "landlock"
            else None,
            "existing": _writable_devices(),
            "ports": _free_port_ranges(taken) if self._asked.closed else [],
        }
        (scratch / f"{name}.plan").write_bytes(marshal.dumps(plan))
        return [sys.executable, "-I", "-S", str(FENCE), str(scratch / f"{name}.plan")]

    def close(self) -> None:
        """Remove shared memory that the commands left."""
        for each in self._leftovers:
            each.remove_blocks()

    def _try_landlock(self) -> None:
        if not sys.platform.startswith("linux"):
            raise UnavailableError("Landlock requires Linux")
        printed = try_start(self._launcher_words("try"))
        self.sends = self._asked.closed and printed.decode() == OPEN


def _link_root(folder: Path) -> None:
    folder.mkdir()
    for each in Path("/").iterdir():
        target = str(each.readlink()) if each.is_symlink() else f"/.{each}"
        (folder / each.name).symlink_to(target)


def _writable_devices() -> list[str]:
    with os.scandir("/dev") as entries:
        return [
            each.path
            for each in entries
            if each.path != shared_memory.SHARED
            and (
                each.is_dir(follow_symlinks=False)
                or stat.S_ISCHR(each.stat(follow_symlinks=False).st_mode)
            )
        ]


def _free_port_ranges(taken: Sequence[int]) -> list[tuple[int, int]]:
    refused = {port for port in (*SERVICES, *MORE_SERVICES, *taken) if port >= FIRST_PORT}
    edges = [FIRST_PORT - 1, *sorted(refused), LAST_PORT + 1]
    found = [(before + 1, after - 1) for before, after in pairwise(edges)]
    return [(first, last) for first, last in found if first <= last]
