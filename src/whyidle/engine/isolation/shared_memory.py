"""How shared memory, files in ``/dev/shm``, is kept apart in a trial.

It gets an overlay like any folder, but one that is kept in memory, so that it is as fast as before,
and gone with the last process of the trial even where that is killed. Without namespaces Python
diverts what is written there like any other file, and what PyTorch leaves there is removed after
the command.
"""

from __future__ import annotations

import os
import re
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


def shared_memory_mounts() -> list[tuple[str, Literal["overlay", "tmpfs"]]]:
    """What to mount. Nothing where CUDA's multi-process service runs, whose clients and server
    share memory by name."""
    if (
        is_mps_running(os.environ)
        or not Path(SHARED).is_dir()
        or os.path.realpath(SHARED) != SHARED
    ):
        return []
    return [(SHARED, "overlay" if glibc_version() >= FIRST_LIBC else "tmpfs")]


def is_mps_running(variables: Mapping[str, str]) -> bool:
    """Whether the service listens here."""
    name, usual = MPS
    return Path(variables.get(name, usual), "control").exists()


def glibc_version() -> tuple[int, ...]:
    """The version of glibc; that of any other library counts as new."""
    with suppress(ValueError, OSError):
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        if name == "glibc":
            return tuple(int(part) for part in version.split(".")[:2])
    return FIRST_LIBC


def list_names() -> frozenset[str]:
    """What is there now."""
    with suppress(OSError):
        return frozenset(each.name for each in Path(SHARED).iterdir())
    return frozenset()


@dataclass(frozen=True, slots=True)
class SharedMemoryLeftovers:
    """Shared memory of PyTorch that a killed command may leave. In ``processes`` each of its Python
    processes leaves a file with its number for a name; ``before`` are names that were there."""

    processes: Path
    before: frozenset[str]

    def remove_blocks(self) -> None:
        """Remove what the command's processes made."""
        numbers = {path.name for path in self.processes.glob("*")}
        for name in list_names() - self.before:
            match = TORCHS.match(name)
            if match and match[1] in numbers:
                with suppress(OSError):
                    Path(SHARED, name).unlink()
