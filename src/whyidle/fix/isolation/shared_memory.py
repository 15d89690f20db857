"""Isolation of shared memory, the files in ``/dev/shm``.

With namespaces it gets an overlay in memory, which is as fast as the original and vanishes with the
last process of the trial. Without namespaces, Python redirects writes as for any other file, and
files that PyTorch leaves there are removed after the command.
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
FIRST_LIBC = (2, 34)  # first glibc that accepts an overlay as ``/dev/shm``; older ones get a tmpfs
MPS = ("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")

TORCHS = re.compile(r"torch_(\d+)_")
"""PyTorch's files in shared memory, with the process id of their creator"""


def shared_memory_mounts() -> list[tuple[str, Literal["overlay", "tmpfs"]]]:
    """Mounts for shared memory; none with CUDA's Multi-Process Service, which shares it by name."""
    if (
        is_mps_running(os.environ)
        or not Path(SHARED).is_dir()
        or os.path.realpath(SHARED) != SHARED
    ):
        return []
    return [(SHARED, "overlay" if glibc_version() >= FIRST_LIBC else "tmpfs")]


def is_mps_running(variables: Mapping[str, str]) -> bool:
    """Whether CUDA's Multi-Process Service runs."""
    name, usual = MPS
    return Path(variables.get(name, usual), "control").exists()


def glibc_version() -> tuple[int, ...]:
    """The version of glibc; other C libraries count as new."""
    with suppress(ValueError, OSError):
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        if name == "glibc":
            return tuple(int(part) for part in version.split(".")[:2])
    return FIRST_LIBC


def list_names() -> frozenset[str]:
    """Current names in shared memory."""
    with suppress(OSError):
        return frozenset(each.name for each in Path(SHARED).iterdir())
    return frozenset()


@dataclass(frozen=True, slots=True)
class SharedMemoryLeftovers:
    """Shared memory of PyTorch that a killed command may leave."""

    processes: Path  # folder with a file per Python process, named by its id
    before: frozenset[str]  # names that existed before the command

    def remove_blocks(self) -> None:
        """Remove the files that the command's processes created."""
        numbers = {path.name for path in self.processes.glob("*")}
        for name in list_names() - self.before:
            match = TORCHS.match(name)
            if match and match[1] in numbers:
                with suppress(OSError):
                    Path(SHARED, name).unlink()
