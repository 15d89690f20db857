"""Sockets of services that no overlay hides in a trial.

Nobody can connect to a socket through an overlay. Where there is none, beside mounts further down
and in what is read-only, a service would answer: that of Docker starts whatever it is asked for,
outside of the trial.
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

from whyidle.engine.isolation import shared_memory
from whyidle.engine.isolation.mounts import KERNEL, LEFT, SERVICES, Mount, is_inside

MOST_LOOKED_AT = 20_000
"""entries of one mount, from its top down: it may be a data set, and services have their sockets
high up"""
LONGEST_S = 0.5
"""to look at one mount"""
FAR = re.compile(
    r"nfs|cifs|smb|lustre|ceph|9p|afs|gpfs|beegfs|gluster|squashfs|fuse\.(?!fuse-over)"
)
"""kinds of mounts that other machines may hold up for good, or in which nothing is ever made: no
service of this machine has its socket there"""


def uncovered_sockets(mounts: Sequence[Mount], overlaid: Sequence[str]) -> list[str]:
    """Those that could be reached in a trial, but those that only answer questions."""
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
    """The sockets of a mount, which may be one itself, outside of what is ``apart``."""
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
