"""Plans the overlays of a trial: which folders get one, and where each stores its writes.

An overlay covers one folder of one file system. Mounts below it need their own, and an ordinary
user cannot overlay a folder that contains a mount. Overlays are therefore planned folder by folder,
as high up as possible; files next to such folders are read-only in a trial. The upper folder of an
overlay must not lie inside the overlaid folder, so there are two storage folders (*shelves*).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

KERNEL = """
autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs fusectl hugetlbfs
mqueue nfsd nsfs proc pstore rpc_pipefs securityfs selinuxfs sysfs tracefs
"""
"""file systems without files of users"""
LEFT = ("/proc", "/sys", "/dev")
SERVICES = (
    "/tmp/nvidia-mps",
    "/run/nscd",
    "/run/nvidia-fabricmanager",
    "/run/nvidia-persistenced",
    "/run/systemd/userdb",
    "/var/lib/sss/pipes",
)
"""sockets of harmless services, which are unreachable through an overlay and stay visible"""


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of ``/proc/self/mountinfo``."""

    path: str
    kind: str
    writable: bool


@dataclass(slots=True)
class MountLayout:
    """The mounts of a trial."""

    overlays: list[tuple[str, int]] = field(default_factory=list)  # (folder, index of its shelf)
    read_only: list[str] = field(default_factory=list)
    sockets: list[str] = field(default_factory=list)
    """sockets of services outside the overlays, to be hidden"""


def read_mounts(text: str) -> list[Mount]:
    """Parse the visible mounts of a ``mountinfo``; of several on one path the last."""
    found: dict[str, Mount] = {}
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, (kind, _, options) = left.split(), right.split(" ")[:3]
        path = (
            fields[4]
            .encode()
            .decode("unicode_escape")
            .encode("latin-1")
            .decode(errors="surrogateescape")
        )
        writable = "ro" not in fields[5].split(",") and "ro" not in options.split(",")
        found.pop(path, None)
        found[path] = Mount(path, kind, writable)
    return list(found.values())


def is_inside(path: str, folder: str) -> bool:
    """Whether ``path`` is ``folder`` or inside it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def plan_layout(
    mounts: Sequence[Mount], shelves: Sequence[str | None], refused: frozenset[str] = frozenset()
) -> MountLayout:
    """Cover all writable folders with overlays; ``refused``: folders that cannot have one."""
    layout = MountLayout()
    paths = [mount.path for mount in mounts]
    for mount in mounts:
        if (
            not mount.writable
            or mount.kind in KERNEL.split()
            or any(is_inside(mount.path, p) for p in LEFT)
        ):
            continue
        try:
            folder = stat.S_ISDIR(Path(mount.path).stat().st_mode)
        except OSError:
            continue  # inaccessible for the job too
        if not folder or mount.path in refused:
            layout.read_only.append(mount.path)  # containers mount single files
            continue
        above = [path for path in paths if path != mount.path and is_inside(path, mount.path)]
        if not _cover_folder(layout, mount.path, above, shelves, refused):
            layout.read_only.append(mount.path)
    return layout


def _cover_folder(
    layout: MountLayout,
    folder: str,
    mounted: Sequence[str],
    shelves: Sequence[str | None],
    refused: frozenset[str],
) -> bool:
    nested = [path for path in mounted if is_inside(path, folder)]
    free = [
        number
        for number, shelf in enumerate(shelves)
        if shelf and not (is_inside(shelf, folder) or is_inside(folder, shelf))
    ]
    if free and not nested and folder not in refused and folder != "/":
        layout.overlays.append((folder, free[0]))
        return True
    for child in _list_folders(folder):
        if child not in nested and child not in LEFT and child not in shelves:
            _cover_folder(layout, child, nested, shelves, refused)
    return False


def _list_folders(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            yield from sorted(each.path for each in entries if each.is_dir(follow_symlinks=False))
    except OSError:
        return
