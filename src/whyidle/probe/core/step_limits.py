"""What was asked for in steps: to stop watching, or to end the job.

Steps are those of the optimizer that steps first, so that a job with several counts each of its
steps once. The job ends as by Ctrl-C: this process interrupts itself when that optimizer has
stepped, so scripts that save on Ctrl-C save, and all ranks stop after the same step. Where SIGINT
is ignored (a job that a shell put into the background), SIGTERM takes its place.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from . import containment

if TYPE_CHECKING:
    from .events import Loop

KEPT = ("optimizer", "limits")


class Limits:
    """Counts steps, and acts at the limits; None is never."""

    def __init__(self, loop: Loop, steps: int | None, stop_after: int | None) -> None:
        self.loop = loop
        self.steps, self.stop_after = steps, stop_after
        self.first: int | None = None
        self.done = 0
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self.first, self.done = None, 0

    def stepped(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
        if self.first is None:
            self.first = id(optimizer)
        if id(optimizer) != self.first:
            return
        self.done += 1
        if self.done == self.steps:
            containment.contained(self.loop.recorder.folder, "ending to watch", self._rest)
        if self.done == self.stop_after:
            recorder = self.loop.recorder
            containment.contained(recorder.folder, "ending the job", recorder.flush)
            ignored = signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None)
            # to this thread: what is sent to the process may reach another, which comes later
            signal.raise_signal(signal.SIGTERM if ignored else signal.SIGINT)

    def _rest(self) -> None:
        """Take everything off, write what there is, and record nothing any more. Hooks of the
        optimizer stay, as PyTorch is walking over them now; they find nothing to write into."""
        loop = self.loop
        for where in [name for name in reversed(loop.undo) if name not in KEPT]:
            containment.contained(loop.recorder.folder, where, loop.undo.pop(where))
        loop.recorder.flush()
        loop.recorder.end()


def install(loop: Loop) -> None:
    """Count, where something was asked for; else there is no hook at all."""
    steps, stop_after = _asked("WHYIDLE_STEPS"), _asked("WHYIDLE_STOP_AFTER")
    if steps is None and stop_after is None:
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook

    is_compiling = containment.compiling()
    limits = Limits(loop, steps, stop_after)

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not is_compiling():
            limits.stepped(optimizer)

    loop.undo["limits"] = register_optimizer_step_post_hook(after).remove


def _asked(name: str) -> int | None:
    told = os.environ.get(name, "")
    return int(told) if told.isdigit() else None
