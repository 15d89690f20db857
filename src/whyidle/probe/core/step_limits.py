"""What was asked for in steps: to stop watching, or to end the job.

Steps are those of the optimizer that steps first, so that a job with several counts each of its
steps once. The job ends as by Ctrl-C: this process interrupts itself when that optimizer has
stepped, so scripts that save on Ctrl-C save, and all ranks stop after the same step. Where SIGINT
is ignored (a job that a shell put into the background), SIGTERM takes its place.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from . import containment
from .events import Events
from .listener import Listener

KEPT = ("optimizer",)
"""hooks that stay, as the framework is walking over them now; they find nothing to write into"""


class StepLimits(Listener):
    """Counts steps, and acts at the limits; None is never."""

    listener = "limits"
    wants_steps = True

    def __init__(self, events: Events, steps: int | None, stop_after: int | None) -> None:
        self.events = events
        self.steps, self.stop_after = steps, stop_after
        self.first: int | None = None
        self.done = 0
        os.register_at_fork(after_in_child=self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        self.first, self.done = None, 0

    def on_step(self, optimizer: Any) -> None:
        """Act where a limit is reached."""
        if optimizer is None:
            return
        if self.first is None:
            self.first = id(optimizer)
        if id(optimizer) != self.first:
            return
        self.done += 1
        recorder = self.events.recorder
        reached = self.done == self.stop_after
        if self.done == self.steps:
            containment.run_contained(recorder.folder, "ending to watch", self._stop_watching)
        if reached:
            containment.run_contained(recorder.folder, "ending the job", recorder.flush_records)
            ignored = signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None)
            # to this thread: what is sent to the process may reach another, which comes later
            signal.raise_signal(signal.SIGTERM if ignored else signal.SIGINT)

    def _stop_watching(self) -> None:
        """Take everything off, write what there is, and record nothing any more."""
        events = self.events
        kept = KEPT if self.stop_after is None else (*KEPT, self.listener)
        for where in [name for name in reversed(events.undo) if name not in kept]:
            containment.run_contained(events.recorder.folder, where, events.undo.pop(where))
        events.recorder.flush_records()
        events.recorder.end_recording()


def install_step_limits(events: Events) -> None:
    """Count, where something was asked for."""
    steps, stop_after = _requested_limit("WHYIDLE_STEPS"), _requested_limit("WHYIDLE_STOP_AFTER")
    if steps is not None or stop_after is not None:
        events.add_listener(StepLimits(events, steps, stop_after))


def _requested_limit(name: str) -> int | None:
    told = os.environ.get(name, "")
    return int(told) if told.isdigit() else None
