"""Short recordings of every operator: a few steps with the framework's profiler.

The sampler's thread decides (``on_chore``, by a ``burst_scheduler.BurstSchedule``; ``on_sample``,
at every sample). The training thread acts, at step boundaries only: after a step of the optimizer
that steps first. ``PID.bursts.json`` lists the windows of time that a burst disturbs, so that no
statistic counts those steps. The sampler's thread writes and frees the trace, ``PID.burst-N.*``.

Only one rank and only the main thread are recorded, and never while the job uses its own profiler.
A fork, such a profiler or a step that does not end stops a recording at once.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from .. import wire
from ..wire import ProcessFacts
from . import burst_budget, fault_containment
from .burst_budget import median
from .burst_scheduler import BurstSchedule
from .events import Events
from .listener import Listener
from .op_profiler import OpProfiler
from .recorder import ANNOTATION, clock_ns

LATE, LATE_S = 3, 0.3
"""multiple of the expected length, plus seconds, after which a recording is stopped. The expected
length is the mean of the current steps: a host that runs ahead of its device makes many short steps
and then one that waits for all of them"""
LATER_NS = 1_000_000_000
"""delay before another attempt to stop a recording, ns"""
SPAN = "whyidle::burst"


class Bursts(Listener):
    """The bursts of one process; ``off`` says why no more follow. ``make_profiler`` is called with
    the facts of the process once it trains."""

    listener = "burst"

    def __init__(self, events: Events, make_profiler: Callable[[ProcessFacts], OpProfiler]) -> None:
        self.events, self.make_profiler = events, make_profiler
        self.look = os.environ.get("WHYIDLE_PROFILE") == "look"
        """``--profile look``: record a burst soon, regardless of its cost"""
        self._reset_after_fork()
        os.register_at_fork(before=self._before_fork, after_in_child=self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        self.profiler: OpProfiler | None = None
        self.off: str | None = None
        self.closed = False
        self.wanted_work = None
        self.entries: list[dict[str, Any]] = []
        self.windows: list[tuple[int, int]] = []
        """(begin, end) ns; end 0: not over yet"""
        self.spent_s = 0.0
        self.needs_s: float | None = None
        """training time until the budget allows the next burst, s; None: unknown"""
        self.choice = BurstSchedule(self)
        self.put_off: str | None = None
        """why the last planned burst did not begin: the job profiles or debugs itself"""
        self._begin, self._started, self._until = 0, 0, 0
        self._bounds: list[int] = []
        self._result: Any = None
        self._call: Any = None
        self._saving = threading.Lock()

    # -- on the training thread ---------------------------------------------------------------

    @property
    def wanted_work(self) -> Callable[[], None] | None:
        """The work to do at the next step boundary; None: steps are not observed."""
        return self._wanted

    @wanted_work.setter
    def wanted_work(self, work: Callable[[], None] | None) -> None:
        self._wanted = work
        self.wants_steps = work is not None
        self.events.be_careful()

    def on_step(self, optimizer: Any) -> None:
        """Do the wanted work where a step of the lead ends."""
        if id(optimizer) == self.events.lead and self.wanted_work is not None:
            self.wanted_work()

    def start(self) -> None:
        """Begin a burst at this step boundary."""
        profiler, self.wanted_work = self.profiler, None
        self.put_off = profiler.busy() if profiler else None
        if self.put_off:
            self.publish_state()
        if profiler is None or not _on_main() or self.put_off or self.events.recorder.broken:
            return
        self._begin = clock_ns()
        self.windows = [*self.windows, (self._begin, 0)]
        self.publish_state()
        profiler.start(f"ProfilerStep#{self.events.steps + 1}")
        self._started = clock_ns()  # attaching to a GPU may take a second; that is no late step
        self._until = self._started + int(
            1e9 * (LATE * self.choice.steps * self._mean_s() + LATE_S)
        )
        self._bounds = [self._started]
        self.wanted_work = self._plan_next

    def _plan_next(self) -> None:
        if not _on_main() or self.profiler is None:
            return
        self._bounds.append(clock_ns())
        if len(self._bounds) <= self.choice.steps:
            self.profiler.mark(f"ProfilerStep#{self.events.steps + 1}")
            return
        self._stop_recording("recorded")

    def _stop_recording(self, state: str) -> None:
        """Stop the recording and store its result if it is complete."""
        self.wanted_work, self._until = None, 0
        if self.profiler is None or not self.profiler.running:
            return
        begin = clock_ns()
        result = self.profiler.stop()
        end = clock_ns()
        steps = [(b - a) / 1e9 for a, b in pairwise(self._bounds)]
        before = self._step_s()
        # the median, since one of the steps may contain an evaluation or a checkpoint
        slower = max(0.0, len(steps) * (median(steps or [0.0]) - before))
        cost = (self._started - self._begin + end - begin) / 1e9 + slower
        self.spent_s += cost
        self.windows = [*self.windows[:-1], (self._begin, end)]
        self.entries = [
            *self.entries,
            {
                "state": state,
                "step": self.events.steps - len(steps) + 1,
                "steps": len(steps),
                "begin": self._begin,
                "end": end,
                "before_s": before,
                "during_s": median(steps) if steps else None,
                "after_s": None,
                "cost_s": cost,
            },
        ]
        self.publish_state()
        self.events.add_span(wire.PROFILING, SPAN, ANNOTATION, self._begin)
        if state != "recorded":
            self.choice.allow_retry()
        elif not self.events.recorder.broken:
            self._result = result

    def abandon_recording(self, why: str) -> None:
        """Stop and drop a recording that runs on this thread."""
        if self.profiler is None or not self.is_running() or not _on_main():
            return
        if self.profiler.is_capturing():  # waiting for the device would break the job's graph
            self._until = clock_ns() + LATER_NS
            return
        self._stop_recording(f"abandoned: {why}")

    def is_running(self) -> bool:
        """Whether every operator is being recorded now."""
        return self.profiler is not None and self.profiler.running

    def forbid_bursts(self, why: str) -> None:
        """Record no further profiles."""
        self.off, self.wanted_work = self.off or why, None
        if self.profiler is not None and self.is_running():
            self.profiler.stay()
        self.abandon_recording(why)

    def stop_listening(self) -> None:
        """Stop recording, from any thread, and write what was recorded."""
        self.closed, self.wanted_work, self.off = True, None, self.off or "closed"
        if self.is_running() and not _on_main():
            self._interrupt_main_thread("closed")
        self.abandon_recording("closed")
        if self.windows and not self.windows[-1][1] and not self.is_running():
            # a fault came in between
            self.windows = [*self.windows[:-1], (self._begin, clock_ns())]
            self.publish_state()
        if self._saving.acquire(timeout=5.0):  # the sampler's thread may be writing it
            self._saving.release()
            self._keep_recording()
        if not self.entries and self.events.recorder.facts:
            self.publish_state()

    def _before_fork(self) -> None:
        """Stop a recording before a fork: the child would continue it."""
        fault_containment.run_contained(
            self.events.recorder.folder, "burst", lambda: self.abandon_recording("a fork")
        )

    # -- on the sampler's thread --------------------------------------------------------------

    def on_sample(self) -> None:
        """Stop a recording whose steps do not end."""
        if self._until and clock_ns() > self._until:
            self._until = 0
            self._interrupt_main_thread("a step took too long")

    def _interrupt_main_thread(self, why: str) -> None:
        """Make the main thread abandon the recording at its next line of Python."""

        def late(_: Any) -> int:
            try:
                self.abandon_recording(why)
            except BaseException as error:  # ctypes would print it and lose a Ctrl-C
                if not fault_containment.repeat_signal(error, late.__code__):
                    fault_containment.note_fault(self.events.recorder.folder, "burst", error)
            return 0

        self._call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(late)
        ctypes.pythonapi.Py_AddPendingCall(self._call, None)

    def on_chore(self) -> None:
        """Write a finished burst or plan the next one."""
        if self.closed or not self.events.recorder.facts:
            return
        if self._result is not None:
            self._keep_recording()
        elif self.off is None and self.wanted_work is None and self._is_chosen_process():
            self.choice.plan_next()

    def _is_chosen_process(self) -> bool:
        """Whether bursts of this process can be recorded."""
        facts = self.events.recorder.facts
        if self.profiler is None:
            self.profiler = self.make_profiler(facts)
            self.off = self.profiler.why_unavailable()
            if self.off is not None:
                self.publish_state()
        return self.off is None and self._first_rank()

    def _first_rank(self) -> bool:
        rank = self.events.recorder.facts.get("rank") or os.environ.get("RANK") or "0"
        return str(rank) == "0"

    @property
    def is_first_awaited(self) -> bool:
        """Whether the first burst of this process has still to begin or end. False where the job
        itself prevents it."""
        to_come = self.off is None and not (self.entries or self.put_off) and self._first_rank()
        return not self.closed and (to_come or self.is_running())

    @property
    def finished_recordings(self) -> list[dict[str, Any]]:
        """The completed bursts."""
        return [burst for burst in self.entries if burst["state"] == "recorded"]

    def _step_s(self) -> float:
        """Median length of the current steps before the recording."""
        return median(self._present_lengths() or [0.0])

    def _mean_s(self) -> float:
        """Mean length of the current steps before the recording."""
        lengths = self._present_lengths()
        return sum(lengths) / max(len(lengths), 1)

    def _present_lengths(self) -> list[float]:
        return burst_budget.present_lengths(
            [end for end in self.events.ends.copy() if end <= self._begin]
        )

    def _keep_recording(self) -> None:
        with self._saving:
            if self._result is not None:
                self._save_trace()

    def _save_trace(self) -> None:
        """Write the trace. Freeing it holds the interpreter lock, which disturbs the job too."""
        if self.profiler is None:
            return
        result, self._result = self._result, None
        burst, number = dict(self.entries[-1]), len(self.finished_recordings)
        begin = clock_ns()
        path = self.events.recorder.file_path(f"burst-{number}.{self.profiler.suffix}")
        try:
            burst["bytes"] = self.profiler.save(result, path)
            burst["file"] = os.path.basename(path)
        except OSError as error:
            burst["state"] = f"not written: {error.strerror or error}"
            self.off = "a trace could not be written"
        del result
        end = clock_ns()
        burst["cost_s"] += (end - begin) / 1e9
        self.spent_s += (end - begin) / 1e9
        self.choice.note_cost(burst["cost_s"])
        self.windows = [*self.windows, (begin, end)]
        self.entries = [*self.entries[:-1], burst]
        self.choice.resumed = end
        self.publish_state()

    def end_bursts(self, why: str) -> None:
        """Plan no further profile, for this reason."""
        self.off = why
        self.publish_state()

    def postpone_burst(self, needs_s: float) -> None:
        """Postpone the next burst until ``needs_s`` of training have passed."""
        if needs_s != self.needs_s:
            self.needs_s = needs_s
            self.publish_state()

    def publish_state(self) -> None:
        """Publish the current state in ``PID.bursts.json``."""
        self.events.recorder.documents["bursts.json"] = {
            "windows": self.windows,
            "bursts": self.entries,
            "off": self.off,
            "put_off": self.put_off,
            "looks": os.environ.get("WHYIDLE_PROFILE") == "look",
            "spent_s": round(self.spent_s, 6),
            "needs_s": self.needs_s,
            "counted_s": self.choice.counted_s,
        }


def install_bursts(
    events: Events, make_profiler: Callable[[ProcessFacts], OpProfiler]
) -> Bursts | None:
    """Enable bursts unless ``WHYIDLE_PROFILE`` is ``off``."""
    if os.environ.get("WHYIDLE_PROFILE") == "off":
        return None
    bursts = Bursts(events, make_profiler)
    events.recording_operators = bursts.is_running
    events.add_listener(bursts)
    return bursts


def _on_main() -> bool:
    return threading.get_ident() == threading.main_thread().ident
