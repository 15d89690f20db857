"""Isolation by Linux namespaces: overlays over all folders, and no network."""

from __future__ import annotations

import json
import marshal
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Literal

from whyidle.fix.isolation import (
    disk_space,
    mounts,
    network,
    overlay_folders,
    shared_memory,
    stale_folders,
)
from whyidle.fix.isolation.backend import GUEST, IsolationRequest, UnavailableError, try_start
from whyidle.fix.isolation.mounts import KERNEL, LEFT, SERVICES, Mount, is_inside
from whyidle.fix.isolation.overlay_folders import MOST_LOOKED_AT

FAR = re.compile(
    r"nfs|cifs|smb|lustre|ceph|9p|afs|gpfs|beegfs|gluster|squashfs|fuse\.(?!fuse-over)"
)
"""network and read-only file systems, which may block and hold no sockets of this machine"""


def uncovered_sockets(mounts: Sequence[Mount], overlaid: Sequence[str]) -> list[str]:
    """Sockets that are reachable in a trial, except for harmless services."""
    apart = {*overlaid, *LEFT, *(mount.path for mount in mounts)}
    name, usual = shared_memory.MPS
    kept = (*SERVICES, os.environ.get(name, usual))
    return [
        path
        for mount in mounts
        if mount.path not in overlaid
        and mount.kind not in KERNEL.split()
        and not FAR.match(mount.kind)
        and not any(is_inside(mount.path, each) for each in LEFT)
        for path in _sockets_below(mount.path, apart)
        if not any(is_inside(path, each) for each in kept)
    ]


def _sockets_below(top: str, apart: set[str]) -> Iterator[str]:
    """Sockets of a mount, which may be one itself, outside the folders ``apart``."""
    with suppress(OSError):
        if stat.S_ISSOCK(os.lstat(top).st_mode):
            yield top
    waiting, left = deque([top]), MOST_LOOKED_AT
    end = time.monotonic() + 0.5
    while waiting and left > 0 and time.monotonic() < end:
        with suppress(OSError), os.scandir(waiting.popleft()) as entries:
            for entry in islice(entries, left):
                left -= 1
                if entry.is_file(follow_symlinks=False) or entry.is_symlink():
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting += [entry.path] if entry.path not in apart else []
                elif stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                    yield entry.path


ENTER = Path(__file__).with_name("namespace_launcher.py")
SETTINGS = ("/proc/sys", "/sys")  # settings of the machine that root could change


class NamespaceBackend:
    """Runs commands behind overlays; tries them once when it is created.

    Raises:
        UnavailableError: overlays are not available on this machine.
    """

    level: Literal["namespaces"] = "namespaces"
    sends = False

    def __init__(self, asked: IsolationRequest) -> None:
        if not sys.platform.startswith("linux"):
            raise UnavailableError("namespaces require Linux")
        self._asked, self._scratch = asked, asked.scratch
        self._commands = 0
        roomy = disk_space.roomy_places()
        self.made = [
            stale_folders.mark_folder(tempfile.mkdtemp(prefix="whyidle-", dir=each))
            for each in roomy
        ]
        self._shelves = disk_space.best_first([self._scratch, *self.made])
        self._needed: list[Path] = []
        self._mounts = mounts.read_mounts(Path("/proc/self/mountinfo").read_text(encoding="utf-8"))
        self._network = network.own_addresses() if asked.closed else None
        hosts = network.hosts_file() if asked.closed else None
        if hosts is not None:
            (self._scratch / "hosts").write_text(hosts, encoding="utf-8", errors="surrogateescape")
        self._memory = shared_memory.shared_memory_mounts()
        self._hosts = hosts is not None and network.HOSTS.is_file()
        try:
            self._user, self._layout = self._find_layout()
        except (UnavailableError, OSError):
            for folder in self.made:
                shutil.rmtree(folder, ignore_errors=True)
            raise

    def command(self, words: Sequence[str]) -> list[str]:
        """Wrap the command with its own overlays."""
        path = self._prepare_command(self._user, self._layout)
        return [sys.executable, "-I", "-S", str(ENTER), str(path), *words]

    def close(self) -> None:
        """Do nothing: mounts end with the commands."""

    def _find_layout(self) -> tuple[bool, mounts.MountLayout]:
        if os.geteuid() == 0:
            with suppress(UnavailableError):
                return False, self._fit_layout(user=False)
        self._needed = overlay_folders.folders_needed()
        return True, self._fit_layout(user=True)

    def _fit_layout(self, user: bool) -> mounts.MountLayout:
        names = [str(each) for each in self._shelves]
        unfit: set[str] = set()
        refused: dict[str, str] = {}
        last = "no folder is writable"
        for _ in range(10):
            usable = [None if shelf in unfit else shelf for shelf in names]
            layout = mounts.plan_layout(self._mounts, usable, frozenset(refused))
            if not layout.overlays:
                break
            overlaid = [folder for folder, _ in layout.overlays]
            layout.sockets = uncovered_sockets(self._mounts, overlaid)
            failed = self._try_layout(user, layout)
            if not failed:
                self._check_reach(layout)
                return layout
            worse = {
                number
                for number in {number for _, number in layout.overlays}
                if all(folder in failed for folder, each in layout.overlays if each == number)
            }
            unfit |= {names[number] for number in worse}
            by_shelf = dict(layout.overlays)
            refused |= {f: why for f, why in failed.items() if by_shelf[f] not in worse}
            last = "; ".join(sorted(set(failed.values())))
        raise UnavailableError(f"no overlay can be mounted: {last}")

    def _check_reach(self, layout: mounts.MountLayout) -> None:
        here = str(Path.cwd())
        covered = any(mounts.is_inside(here, folder) for folder, _ in layout.overlays)
        if not covered and os.access(here, os.W_OK):
            raise UnavailableError(f"the working folder {here} cannot have an overlay")

    def _try_layout(self, user: bool, layout: mounts.MountLayout) -> dict[str, str]:
        path = self._prepare_command(user, layout)
        printed = try_start([sys.executable, "-I", "-S", str(ENTER), str(path)])
        fields = os.fsdecode(printed).split("\0")[:-1]
        return dict(zip(fields[::2], fields[1::2], strict=True))

    def _prepare_command(self, user: bool, layout: mounts.MountLayout) -> Path:
        self._commands += 1
        overlays = []
        for number, (folder, shelf) in enumerate(layout.overlays):
            base = self._shelves[shelf] / f"{self._commands}.{number}"
            upper, work = base / "upper", base / "work"
            for each in (base, upper, work):
                each.mkdir()
            try:
                overlay_folders.build_folders(upper, folder, self._needed)
            except FileNotFoundError:  # a temporary folder, removed since the planning
                continue
            overlays.append((folder, str(upper), str(work)))
        bind = [(str(each), str(each)) for each in (*self._asked.real, self._asked.notes)]
        bind += [(each, each) for each in mounts.SERVICES if Path(each).exists()]
        bind += [(str(self._scratch / "hosts"), str(network.HOSTS))] if self._hosts else []
        settings = [each for each in SETTINGS if os.geteuid() == 0 and Path(each).is_dir()]
        request = {
            **self._asked.guest_request(),
            "closed": self._asked.closed,
            "taken": network.taken_ports(os.environ) if self._asked.closed else [],
            "read_only": [*layout.read_only, *settings],
        }
        guest = self._scratch / "asked.json"
        guest.write_text(json.dumps(request), encoding="utf-8")
        plan = {
            "user": user,
            "environment": {GUEST: str(guest)},
            "network": self._network,
            "overlay": overlays,
            "bind": bind,
            "memory": self._memory,
            "settings": [(each,) for each in settings],
            "read_only": [(folder,) for folder in layout.read_only],
            "sockets": [(path,) for path in layout.sockets],
        }
        path = self._scratch / f"{self._commands}.plan"
        path.write_bytes(marshal.dumps(plan))
        return path
