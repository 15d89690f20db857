"""How shared memory, files in ``/dev/shm``, is kept apart in a trial.

It gets an overlay like any folder, but one that is kept in memory, so that it is as fast as before,
and gone with the last process of the trial even where that is killed. Without namespaces what was
there before is diverted by Python, and what a command made is removed after it.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

SHARED = "/dev/shm"
FIRST_LIBC = (2, 34)
"""glibc before this takes no ``/dev/shm`` for shared memory that is not a tmpfs itself: there it is
one, and what was in it can be read only"""
MPS = ("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")

TORCHS = re.compile(r"torch_(\d+)_")
"""what PyTorch shares between processes, with the id of the one that made it"""


def kept() -> list[tuple[str, Literal["overlay", "tmpfs"]]]:
    """What to mount. Nothing where CUDA's multi-process service runs, whose clients and server
    share memory by name."""
    if mps(os.environ) or not Path(SHARED).is_dir() or os.path.realpath(SHARED) != SHARED:
        return []
    return [(SHARED, "overlay" if libc() >= FIRST_LIBC else "tmpfs")]


def mps(variables: Mapping[str, str]) -> bool:
    """Whether the service listens here."""
    name, usual = MPS
    return Path(variables.get(name, usual), "control").exists()


def libc() -> tuple[int, ...]:
    """The version of glibc; that of any other library counts as new."""
    with suppress(ValueError, OSError):
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        if name == "glibc":
            return tuple(int(part) for part in version.split(".")[:2])
    return FIRST_LIBC


def names() -> frozenset[str]:
    """What is there now."""
    with suppress(OSError):
        return frozenset(each.name for each in Path(SHARED).iterdir())
    return frozenset()


@dataclass(frozen=True, slots=True)
class Shared:
    """Shared memory of one command. In ``folder`` its Python processes leave a file for each that
    they make by name, or by a path below it (``NAME.INODE.made``), and one with their own id
    (``ID.pid``); ``held`` are names that were there before."""

    folder: Path
    held: frozenset[str]

    def sweep(self) -> None:
        """Remove what is known to be the command's; others of the same user's make some meanwhile,
        so that an owner and a time would not do."""
        made = {path.stem for path in self.folder.glob("*.made")}
        ids = {path.stem for path in self.folder.glob("*.pid")}
        for name in names() - self.held:
            path, torchs = Path(SHARED, name), TORCHS.match(name)
            with suppress(OSError):
                told = path.lstat()
                if f"{name}.{told.st_ino}" in made or (torchs and torchs[1] in ids):
                    _remove(path, folder=stat.S_ISDIR(told.st_mode))


def _remove(path: Path, *, folder: bool) -> None:
    if folder:
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()
