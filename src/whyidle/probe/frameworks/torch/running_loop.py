"""Joins a training loop that runs already, and leaves it again."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from ...core.events import Events
from ...core.listener import Listener
from ...core.recorder import clock_ns

OPTIMIZER_FILE = os.path.join("torch", "optim", "optimizer.py")


class RunningSteps(Listener):
    """Registers and removes the hooks of optimizers while another thread trains.

    PyTorch goes through its dictionary of hooks in every step, and raises an error in the job if it
    changes meanwhile. The thread that begins a backward pass is not inside a step.
    """

    listener = "running steps"

    def __init__(
        self, events: Events, register: Callable[[], None], remove: Callable[[], None]
    ) -> None:
        self.events, self.remove, self.process = events, remove, os.getpid()
        self.work: Callable[[], None] | None = register
        self.wants_detail = True
        self.done = threading.Event()

    def on_backward_begin(self, args: tuple[Any, ...]) -> None:
        """Do what waits for this moment."""
        work, self.work, self.wants_detail = self.work, None, False
        if work is not None:
            work()
            self.done.set()

    def leave(self) -> None:
        """Remove the hooks at the next backward pass; if none comes, when no thread steps."""
        if self.work is not None:  # nothing was registered
            self.work = None
        elif os.getpid() != self.process or threading.get_ident() == self.events.home:
            self.remove()
        else:
            self.done.clear()
            self.work, self.wants_detail = self.remove, True
            self.events.be_careful()
            if not self.done.wait(5.0):
                self.work = None
                if not _is_stepping():
                    self.remove()


def _is_stepping() -> bool:
    """Whether any thread is inside an optimizer's step."""
    frames: list[Any] = list(sys._current_frames().values())
    while frames:
        frame = frames.pop()
        if frame.f_code.co_filename.endswith(OPTIMIZER_FILE):
            return True
        frames += [frame.f_back] if frame.f_back is not None else []
    return False


class RunningLoaders(Listener):
    """Describes the loader of an iterator that was made before the recording began."""

    listener = "running loaders"

    def __init__(
        self, is_known: Callable[[Any], bool], note: Callable[[Any, Any, int], None]
    ) -> None:
        self.is_known, self.note = is_known, note

    def on_iterator(self, iterator: Any) -> None:
        """Describe it, once."""
        if not self.is_known(iterator):
            self.note(iterator, RunningLoader(iterator), clock_ns())


class RunningLoader:
    """The settings of a loader, as an iterator that was made from it keeps them."""

    __module__ = "torch.utils.data.dataloader"

    def __init__(self, iterator: Any) -> None:
        drawn = iterator._index_sampler
        batches = drawn if iterator._auto_collation else None
        self.iterator, self.batch_sampler = iterator, batches
        self.sampler = getattr(batches, "sampler", drawn)
        self.batch_size = getattr(batches, "batch_size", None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.iterator, name if name.startswith("_") else f"_{name}", None)

    def __len__(self) -> int:
        return len(self.iterator)
