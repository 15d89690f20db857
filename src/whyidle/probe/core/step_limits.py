"""Stops watching, or ends the job, after a given number of steps.

Only steps of the optimizer that steps first count, so that a job with several optimizers counts
each step once. The job ends as by Ctrl-C: the process interrupts itself when that optimizer has
stepped, so scripts that save on Ctrl-C save, and all ranks stop after the same step. If SIGINT is
ignored, as in a job that a shell put into the background, SIGTERM is sent instead. A job that runs
for its look at memory alone (``run --for``) ends when that look has seen enough.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from . import fault_containment
from .events import Events
from .listener import Listener

KEPT = ("optimizer",)
"""hooks that stay, as the framework is iterating over them; they record nothing any more"""
STEPS_FOR = 4
"""steps of a job that runs for a look's sake, one of them after the look"""


class StepLimits(Listener):
    """Counts steps and acts at the limits; None: no limit."""

    listener = "limits"
    wants_steps = True

    def __init__(self, events: Events, steps: int | None, stop_after: int | None) -> None:
        self.events = events
        self.steps, self.stop_after = steps, stop_after
        self.for_look = stop_after is None and "WHYIDLE_MEMORY_FOR" in os.environ
        self.first: int | None = None
        self.done = 0
        os.register_at_fork(after_in_child=self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        self.first, self.done = None, 0

    def on_step(self, optimizer: Any) -> None:
        """Act if a limit is reached."""
        if optimizer is None:
            return
        if self.first is None:
            self.first = id(optimizer)
        if id(optimizer) != self.first:
            return
        self.done += 1
        recorder = self.events.recorder
        reached = self.done == self.stop_after
        if self.for_look and self.done >= STEPS_FOR:
            self.for_look = any(other.wants_longer for other in self.events.listeners)
            reached = not self.for_look
        if self.done == self.steps:
            fault_containment.run_contained(recorder.folder, "ending to watch", self._stop_watching)
        if reached:
            fault_containment.run_contained(
                recorder.folder, "ending the job", recorder.flush_records
            )
            ignored = signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None)
            hook = sys.excepthook

            def say_interrupted(kind: Any, error: Any, trace: Any) -> None:
                if issubclass(kind, KeyboardInterrupt):  # asked for: its traceback tells nothing
                    sys.stderr.write(f"whyidle: ended after step {self.done}, as asked\n")
                else:
                    hook(kind, error, trace)

            sys.excepthook = say_interrupted
            # sent to this thread: a signal to the process may reach another, and act later
            signal.raise_signal(signal.SIGTERM if ignored else signal.SIGINT)

    def _stop_watching(self) -> None:
        """Remove all hooks, write what is buffered, and end the recording."""
        events = self.events
        ends = self.stop_after is not None or self.for_look
        kept = (*KEPT, self.listener) if ends else KEPT
        for where in [name for name in reversed(events.undo) if name not in kept]:
            fault_containment.run_contained(events.recorder.folder, where, events.undo.pop(where))
        events.recorder.flush_records()
        events.recorder.end_recording()


def install_step_limits(events: Events) -> None:
    """Count steps if a limit is set."""
    steps, stop_after = _requested_limit("WHYIDLE_STEPS"), _requested_limit("WHYIDLE_STOP_AFTER")
    limits = StepLimits(events, steps, stop_after)
    if steps is not None or stop_after is not None or limits.for_look:
        events.add_listener(limits)


def _requested_limit(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else None
