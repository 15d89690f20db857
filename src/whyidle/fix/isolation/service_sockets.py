"""Finds sockets of services that no overlay hides in a trial.

A socket cannot be reached through an overlay. In folders without one, services remain reachable,
and Docker's, for example, could start processes outside the trial.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from whyidle.fix.isolation import shared_memory
from whyidle.fix.isolation.mounts import KERNEL, LEFT, SERVICES, Mount, is_inside

MOST_LOOKED_AT = 20_000
"""entries examined per mount, from the top down, since a mount may hold a data set"""
LONGEST_S = 0.5  # time limit per mount
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
    end = time.monotonic() + LONGEST_S
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
