"""What a profiler of a framework offers for recording every operator of a few steps."""

from __future__ import annotations

from typing import Any, Protocol


class OpProfiler(Protocol):
    """One thread's profiler: ``start``, ``mark`` at every boundary, ``stop``."""

    cuda: bool
    """whether a GPU's kernels are recorded, which is dearer"""
    running: bool

    def why_unavailable(self) -> str | None:
        """Why this process cannot be recorded at all."""

    def busy(self) -> str | None:
        """Why not right now, on this thread."""

    def is_capturing(self) -> bool:
        """Whether what this thread gives the device is captured, rather than done."""

    def stay(self) -> None:
        """Stay attached this time: somebody else is about to record the device."""

    def start(self, label: str) -> None:
        """Record this thread, and what it calls, from now on."""

    def mark(self, label: str) -> None:
        """A step ends, and the next one, ``label``, begins."""

    def stop(self) -> Any:
        """End, on the thread that started it. Returns what ``save`` takes."""

    def save(self, result: Any, path: str) -> int:
        """Write a recording whole or not at all, from any thread. Returns its size in bytes.

        Raises:
            OSError: nothing could be written.
        """

    def count_nodes(self) -> int:
        """How many nodes of backward graphs this thread has made."""

    def count_compilations(self) -> int:
        """How many pieces of code the framework's compiler has looked at."""
