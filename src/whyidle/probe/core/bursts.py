"""Short recordings of every operator: a few steps with the framework's profiler.

The sampler's thread decides (``on_chore``, now and then, by a ``burst_scheduler.Choice``;
``on_sample``, at every look), the training thread acts, at step boundaries only: after a step of
the optimizer that steps first. What a burst disturbs is told in ``PID.bursts.json`` as windows of
time, so that no statistic counts those steps; the trace is ``PID.burst-N.json``, written and freed
by the sampler's thread.

Only one rank, only the main thread, and never where the job has a profiler of its own. A fork, that
profiler or a step that does not end takes a recording down at once.
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
from . import burst_budget, containment
from .burst_budget import median
from .burst_scheduler import STEPS, BurstSchedule
from .events import Events
from .listener import Listener
from .op_profiler import OpProfiler
from .recorder import ANNOTATION, clock_ns

LATE, LATE_S = 3, 0.3
"""times the expected length, and seconds, after which a recording is taken down. Expected is the
mean of the present steps: a host that runs ahead of its device makes many short ones, and then one
that waits for all of them"""
PARTING_S = 5.0
"""how long the end of the process waits for a trace that is being written"""
LATER_NS = 1_000_000_000
"""after so long it is tried again to take down what could not be"""
SPAN = "whyidle::burst"


class Bursts(Listener):
    """Those of one process. ``off`` says why there are no more.

    Args:
        events: hooks report to it.
        make_profiler: given the facts of the process, once it trains.
    """

    listener = "burst"

    def __init__(self, events: Events, make_profiler: Callable[[ProcessFacts], OpProfiler]) -> None:
        self.events, self.make_profiler = events, make_profiler
        self.look = os.environ.get("WHYIDLE_PROFILE") == "look"
        """whether the run is only looked at: then a burst comes soon, whatever it costs"""
        self._reset_after_fork()
        os.register_at_fork(before=self._before_fork, after_in_child=self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        """A forked child begins anew."""
        self.profiler: OpProfiler | None = None
        self.off: str | None = None
        self.closed = False
        self.wanted = None
        self.told: list[dict[str, Any]] = []
        self.windows: list[tuple[int, int]] = []
        """(begin, end) ns; end 0: not over yet"""
        self.spent_s = 0.0
        self.needs_s: float | None = None
        """how long the run must train before the next one is cheap enough; None where not known"""
        self.choice = BurstSchedule(self)
        self.put_off: str | None = None
        """why the last one that was to begin did not: the job profiles or debugs itself"""
        self._begin, self._started, self._until = 0, 0, 0
        self._bounds: list[int] = []
        self._result: Any = None
        self._call: Any = None
        self._saving = threading.Lock()

    # -- on the training thread ---------------------------------------------------------------

    @property
    def wanted(self) -> Callable[[], None] | None:
        """What the next boundary is for; while there is nothing, no step is heard of."""
        return self._wanted

    @wanted.setter
    def wanted(self, work: Callable[[], None] | None) -> None:
        self._wanted = work
        self.wants_steps = work is not None
        self.events.be_careful()

    def on_step(self, optimizer: Any) -> None:
        """Do what is wanted where a step of the lead ends."""
        if id(optimizer) == self.events.lead and self.wanted is not None:
            self.wanted()

    def start(self) -> None:
        """A burst begins at this boundary."""
        profiler, self.wanted = self.profiler, None
        self.put_off = profiler.busy() if profiler else None
        if self.put_off:
            self.tell()
        if profiler is None or not _on_main() or self.put_off or self.events.recorder.broken:
            return
        self._begin = clock_ns()
        self.windows = [*self.windows, (self._begin, 0)]
        self.tell()
        profiler.start(f"ProfilerStep#{self.events.steps + 1}")
        self._started = clock_ns()  # attaching to a GPU may take a second, and is no late step
        self._until = self._started + int(1e9 * (LATE * STEPS * self._mean_s() + LATE_S))
        self._bounds = [self._started]
        self.wanted = self._plan_next

    def _plan_next(self) -> None:
        if not _on_main() or self.profiler is None:
            return
        self._bounds.append(clock_ns())
        if len(self._bounds) <= STEPS:
            self.profiler.mark(f"ProfilerStep#{self.events.steps + 1}")
            return
        self._stop_recording("recorded")

    def _stop_recording(self, state: str) -> None:
        """Take the recording down, and keep it if it is one."""
        self.wanted, self._until = None, 0
        if self.profiler is None or not self.profiler.running:
            return
        begin = clock_ns()
        result = self.profiler.stop()
        end = clock_ns()
        steps = [(b - a) / 1e9 for a, b in pairwise(self._bounds)]
        before = self._step_s()
        # the median: what one of the steps took more may be an evaluation or a checkpoint in it
        slower = max(0.0, len(steps) * (median(steps or [0.0]) - before))
        cost = (self._started - self._begin + end - begin) / 1e9 + slower
        self.spent_s += cost
        self.windows = [*self.windows[:-1], (self._begin, end)]
        self.told = [
            *self.told,
            {
                "state": state,
                "step": self.events.steps - len(steps) + 1,
                "steps": len(steps),
                "begin": self._begin,
                "end": end,
                "before_s": before,
                "during_s": median(steps) if steps else None,
                "after_s": None,
                "stop_s": (end - begin) / 1e9,
                "cost_s": cost,
            },
        ]
        self.tell()
        self.events.add_span(wire.PROFILING, SPAN, ANNOTATION, self._begin)
        if state != "recorded":
            self.choice.allow_retry()
        elif not self.events.recorder.broken:
            self._result = result

    def abandon_recording(self, why: str) -> None:
        """Take a recording down that is under way on this thread, and drop it."""
        if self.profiler is None or not self.is_running() or not _on_main():
            return
        if self.profiler.is_capturing():  # to wait for the device now would spoil the job's graph
            self._until = clock_ns() + LATER_NS
            return
        self._stop_recording(f"abandoned: {why}")

    def is_running(self) -> bool:
        """Whether every operator is being recorded at this moment."""
        return self.profiler is not None and self.profiler.running

    def forbid_bursts(self, why: str) -> None:
        """No burst any more."""
        self.off, self.wanted = self.off or why, None
        if self.profiler is not None and self.is_running():
            self.profiler.stay()
        self.abandon_recording(why)

    def stop_listening(self) -> None:
        """Take everything down, from any thread; what was recorded is kept."""
        self.closed, self.wanted, self.off = True, None, self.off or "closed"
        if self.is_running() and not _on_main():
            self._interrupt_main_thread("closed")
        self.abandon_recording("closed")
        if self.windows and not self.windows[-1][1] and not self.is_running():
            self.windows = [
                *self.windows[:-1],
                (self._begin, clock_ns()),
            ]  # a fault came in between
            self.tell()
        if self._saving.acquire(timeout=PARTING_S):  # the sampler's thread may be at it
            self._saving.release()
            self._keep_recording()
        if not self.told and self.events.recorder.facts:
            self.tell()

    def _before_fork(self) -> None:
        """A child would go on recording, for nobody."""
        containment.run_contained(
            self.events.recorder.folder, "burst", lambda: self.abandon_recording("a fork")
        )

    # -- on the sampler's thread --------------------------------------------------------------

    def on_sample(self) -> None:
        """Take a recording down whose steps do not end: what follows may be anything."""
        if self._until and clock_ns() > self._until:
            self._until = 0
            self._interrupt_main_thread("a step took too long")

    def _interrupt_main_thread(self, why: str) -> None:
        """Have the main thread abandon the recording at its next line of Python."""

        def late(_: Any) -> int:
            try:
                self.abandon_recording(why)
            except BaseException as error:  # ctypes would print it, and drop a Ctrl-C
                if not containment.repeat_signal(error):
                    containment.note_fault(self.events.recorder.folder, "burst", error)
            return 0

        self._call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(late)
        ctypes.pythonapi.Py_AddPendingCall(self._call, None)

    def on_chore(self) -> None:
        """Decide what is next. A fault ends the bursts, and nothing else."""
        if self.closed or not self.events.recorder.facts:
            return
        if self._result is not None:
            self._keep_recording()
        elif self.off is None and self.wanted is None and self._is_chosen_process():
            self.choice.plan_next()

    def _is_chosen_process(self) -> bool:
        """Whether this process is one to record."""
        facts = self.events.recorder.facts
        if self.profiler is None:
            self.profiler = self.make_profiler(facts)
            self.off = self.profiler.why_unavailable()
            if self.off is not None:
                self.tell()
        return self.off is None and self._first_rank()

    def _first_rank(self) -> bool:
        rank = self.events.recorder.facts.get("rank") or os.environ.get("RANK") or "0"
        return str(rank) == "0"

    @property
    def is_first_awaited(self) -> bool:
        """Whether the first burst of this process is still to come or to end. Nobody waits for
        what the job itself stands in the way of."""
        to_come = self.off is None and not (self.told or self.put_off) and self._first_rank()
        return not self.closed and (to_come or self.is_running())

    @property
    def recorded(self) -> list[dict[str, Any]]:
        """Bursts that came to their end."""
        return [one for one in self.told if one["state"] == "recorded"]

    def _step_s(self) -> float:
        """Of the present steps before the recording, one like another."""
        return median(self._present_lengths() or [0.0])

    def _mean_s(self) -> float:
        """Of the same steps, one with another."""
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
        """Write the trace. Freeing it holds the interpreter's lock: that is a disturbance too."""
        if self.profiler is None:
            return
        result, self._result = self._result, None
        one, number = dict(self.told[-1]), len(self.recorded)
        begin = clock_ns()
        path = self.events.recorder.file_path(f"burst-{number}.json")
        try:
            one["bytes"] = self.profiler.save(result, path)
            one["file"] = os.path.basename(path)
        except OSError as error:
            one["state"] = f"not written: {error.strerror or error}"
            self.off = "a trace could not be written"
        del result
        end = clock_ns()
        one["cost_s"] += (end - begin) / 1e9
        self.spent_s += (end - begin) / 1e9
        self.choice.note_cost(one["cost_s"])
        self.windows = [*self.windows, (begin, end)]
        self.told = [*self.told[:-1], one]
        self.choice.resumed = end
        self.tell()

    def rest(self, why: str) -> None:
        """No other burst is worth it."""
        self.off = why
        self.tell()

    def puts_off(self, needs_s: float) -> None:
        """The next one is too dear yet."""
        if needs_s != self.needs_s:
            self.needs_s = needs_s
            self.tell()

    def tell(self) -> None:
        """Have the present state written down."""
        self.events.recorder.documents["bursts.json"] = {
            "windows": self.windows,
            "bursts": self.told,
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
    """Be ready, unless it was asked not to."""
    if os.environ.get("WHYIDLE_PROFILE") == "off":
        return None
    bursts = Bursts(events, make_profiler)
    events.recording_operators = bursts.is_running
    events.add_listener(bursts)
    return bursts


def _on_main() -> bool:
    return threading.get_ident() == threading.main_thread().ident
