"""The interface of a framework's profiler that records every operator of a few steps."""

from __future__ import annotations

from typing import Any, Protocol


class OpProfiler(Protocol):
    """One thread's profiler: ``start``, ``mark`` at every boundary, ``stop``."""

    cuda: bool
    """whether a GPU's kernels are recorded, which costs more"""
    running: bool
    suffix: str
    """of its files"""

    def why_unavailable(self) -> str | None:
        """Return why this process cannot be recorded at all; None if it can."""

    def busy(self) -> str | None:
        """Return why this thread cannot be recorded now; None if it can."""

    def is_capturing(self) -> bool:
        """Whether the work of this thread is captured as a graph instead of run."""

    def stay(self) -> None:
        """Stay attached to the device: another profiler is about to record it."""

    def start(self, label: str) -> None:
        """Record this thread from now on, beginning with the step ``label``."""

    def mark(self, label: str) -> None:
        """Mark the end of a step and the begin of the next one, ``label``."""

    def stop(self) -> Any:
        """Stop, on the thread that started it. Returns what ``save`` takes."""

    def save(self, result: Any, path: str) -> int:
        """Write a recording completely or not at all, from any thread. Returns its size in bytes.

        Raises:
            OSError: nothing could be written.
        """

    def estimate_events(self, step_s: float) -> int | None:
        """Return how many events a step of this length has, on the sampler's thread; None where
        nodes are counted instead."""

    def count_nodes(self) -> int:
        """Return how many nodes of backward graphs this thread has created."""

    def count_compilations(self) -> int:
        """Return how many code objects the framework's compiler has processed."""


class NoProfiler:
    """Stands for the profiler of a framework that cannot be recorded, for this reason. Nothing but
    ``why_unavailable`` is ever asked of it."""

    cuda = running = False

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def why_unavailable(self) -> str:
        """Return the reason."""
        return self.reason
