"""Which folders of this machine get an overlay in a trial, and where each keeps what is written.

An overlay takes one folder of one file system: what is mounted further down has to get its own, and
an ordinary user may not even take a folder that has a mount below it. So it is planned folder by
folder, as high up as can be; the rest, files beside such folders, is read-only in a trial. Nor may
what is written be kept inside of the folder that is overlaid, hence two shelves, in two places.
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
"""file systems that hold no files of a user's"""
LEFT = ("/proc", "/sys", "/dev")
SERVICES = (
    "/tmp/nvidia-mps",
    "/run/nscd",
    "/run/nvidia-fabricmanager",
    "/run/nvidia-persistenced",
    "/run/systemd/userdb",
    "/var/lib/sss/pipes",
)
"""where sockets and pipes of services lie that answer questions (who is this user, which GPU):
through an overlay they cannot be reached, and nothing is published by asking"""


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of ``/proc/self/mountinfo``."""

    path: str
    kind: str
    writable: bool


@dataclass(slots=True)
class MountLayout:
    """What to mount: ``overlays`` as (folder, its shelf's number), and what becomes read-only;
    ``sockets`` are services' that lie open beside the overlays."""

    overlays: list[tuple[str, int]] = field(default_factory=list)
    read_only: list[str] = field(default_factory=list)
    sockets: list[str] = field(default_factory=list)


def read_mounts(text: str) -> list[Mount]:
    """The visible mounts of a ``mountinfo``: of several at one place the last."""
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
    """Whether a path is a folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def plan_layout(
    mounts: Sequence[Mount], shelves: Sequence[str | None], refused: frozenset[str] = frozenset()
) -> MountLayout:
    """Cover every place that can be written with overlays; ``refused`` are folders of which no
    overlay can be made here."""
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
            continue  # out of reach, for the job as well: another user's, or below another mount
        if not folder or mount.path in refused:
            layout.read_only.append(mount.path)  # a file with a mount of its own, as containers do
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
    """Cover one folder of a mount; whether all of it is covered."""
    nested = [path for path in mounted if is_inside(path, folder)]
    free = [
        number for number, shelf in enumerate(shelves) if shelf and not _do_overlap(shelf, folder)
    ]
    if free and not nested and folder not in refused and folder != "/":
        layout.overlays.append((folder, free[0]))
        return True
    for child in _list_folders(folder):
        if child not in nested and child not in LEFT and child not in shelves:
            _cover_folder(layout, child, nested, shelves, refused)
    return False


def _do_overlap(one: str, other: str) -> bool:
    return is_inside(one, other) or is_inside(other, one)


def _list_folders(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            yield from sorted(each.path for each in entries if each.is_dir(follow_symlinks=False))
    except OSError:
        return
