"""Short recordings of every operator: a few steps with PyTorch's profiler.

The sampler's thread decides (``consider``, now and then; ``watch``, at every look), the training
thread acts, at step boundaries only: after a step of the optimizer that steps first. What a burst
disturbs is told in ``PID.bursts.json`` as windows of time, so that no statistic counts those
steps; the trace is ``PID.burst-N.json``, written and freed by the sampler's thread.

Only one rank, only the main thread, never where the job has a profiler of its own, and never while
steps are unsteady, something compiles or the price is over budget (``pace``). A fork, the job's own
profiler or a step that does not end takes a recording down at once. After a burst the steps are
compared with those before it; if they stay slower there is no other burst.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from . import guard, own, pace
from .pace import median
from .profiler import Profiler, save
from .recorder import ANNOTATION, now

if TYPE_CHECKING:
    from .loop import Loop

STEPS = 3
MOST_BURSTS = 4
MOST_ATTEMPTS = 8
PATIENCE = 5
"""looks for which a changed picture must last"""
AFTER_STEPS = 20
"""steps after a burst before they are compared; as many again, if they look slower"""
LATE, LATE_S = 3, 0.3
"""times the expected length, and seconds, after which a recording is taken down"""
MOST_OTHERS = 50
"""steps of other optimizers without one of the first"""
PARTING_S = 5.0
"""how long the end of the process waits for a trace that is being written"""
SPAN = "whyidle::burst"


class Bursts:
    """Those of one process. ``off`` says why there are no more."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self._forget()
        os.register_at_fork(before=self._forks, after_in_child=self._forget)

    def _forget(self) -> None:
        """A forked child begins anew."""
        self.profiler: Profiler | None = None
        self.off: str | None = None
        self.lead: int | None = None
        self.steps = 0
        self.ends: deque[int] = deque(maxlen=512)
        self.wanted: Callable[[], None] | None = None
        """what the next boundary is for"""
        self.told: list[dict[str, Any]] = []
        self.windows: list[tuple[int, int]] = []
        """(begin, end) ns; end 0: not over yet"""
        self.spent_s, self.attempts = 0.0, 0
        self.picture: tuple[float, float] | None = None
        """(step time, share of data wait) of the last burst"""
        self._begin, self._started, self._until = 0, 0, 0
        self._bounds: list[int] = []
        self._events, self._event_s = 0, 0.0
        self._nodes: int | None = None
        self._first_node = 0
        self._odd = self._compiled = self._others = 0
        self._waited = (0, 0)
        self._result: Any = None
        self._resumed = 0
        self._call: Any = None
        self._saving = threading.Lock()

    # -- on the training thread ---------------------------------------------------------------

    def boundary(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
        if id(optimizer) == self.lead:
            self._others = 0
            self.steps += 1
            self.ends.append(now())
            if self.wanted is not None:
                self.wanted()
        else:
            self._others += 1
            if self.lead is None or self._others > MOST_OTHERS:  # the job has made a new one
                self.lead, self._others = id(optimizer), 0

    def _count(self) -> None:
        self._first_node, self.wanted = _sequence(), self._counted

    def _counted(self) -> None:
        """How many nodes one step's autograd graph has tells how many events it will be."""
        self._nodes, self.wanted = _sequence() - self._first_node, None

    def _start(self) -> None:
        profiler, self.wanted = self.profiler, None
        if profiler is None or not _on_main() or profiler.busy() or self.loop.recorder.broken:
            return
        self._begin = now()
        self._until = self._begin + int(1e9 * (LATE * STEPS * self._step_s() + LATE_S))
        self.windows = [*self.windows, (self._begin, 0)]
        self._tell()
        profiler.start(f"ProfilerStep#{self.steps + 1}")
        self._started = now()
        self._bounds = [self._started]
        self.wanted = self._next

    def _next(self) -> None:
        if not _on_main() or self.profiler is None:
            return
        self._bounds.append(now())
        if len(self._bounds) <= STEPS:
            self.profiler.mark(f"ProfilerStep#{self.steps + 1}")
            return
        self._stop("recorded")

    def _stop(self, state: str) -> None:
        """Take the recording down, and keep it if it is one."""
        self.wanted, self._until = None, 0
        if self.profiler is None or not self.profiler.running:
            return
        begin = now()
        result = self.profiler.stop()
        end = now()
        steps = [(b - a) / 1e9 for a, b in pairwise(self._bounds)]
        before = self._step_s()
        slower = max(0.0, sum(steps) - len(steps) * before)
        cost = (self._started - self._begin + end - begin) / 1e9 + slower
        self.spent_s += cost
        self.windows = [*self.windows[:-1], (self._begin, end)]
        self.told = [
            *self.told,
            {
                "state": state,
                "step": self.steps - len(steps) + 1,
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
        self._tell()
        self.loop.span(SPAN, ANNOTATION, self._begin)
        if state == "recorded" and not self.loop.recorder.broken:
            self._result = result

    def abandon(self, why: str) -> None:
        """Take a recording down that is under way on this thread, and drop it."""
        if self._running() and _on_main():
            self._stop(f"abandoned: {why}")

    def _running(self) -> bool:
        return self.profiler is not None and self.profiler.running

    def forbid(self, why: str) -> None:
        """No burst any more."""
        self.off, self.wanted = self.off or why, None
        self.abandon(why)

    def close(self) -> None:
        """Take everything down, from any thread; what was recorded is kept."""
        self.loop.boundary = None
        self.wanted, self.off = None, self.off or "closed"
        if self._running() and not _on_main():
            self._interrupt("closed")
        self.abandon("closed")
        if self.windows and not self.windows[-1][1] and not self._running():
            self.windows = [*self.windows[:-1], (self._begin, now())]  # a fault came in between
            self._tell()
        if self._saving.acquire(timeout=PARTING_S):  # the sampler's thread may be at it
            self._saving.release()
            self._keep()

    def _forks(self) -> None:
        """A child would go on recording, for nobody."""
        guard.contained(self.loop.recorder.folder, "burst", lambda: self.abandon("a fork"))

    # -- on the sampler's thread --------------------------------------------------------------

    def watch(self) -> None:
        """Take a recording down whose steps do not end: what follows may be anything."""
        if self._until and now() > self._until:
            self._until = 0
            self._interrupt("a step took too long")

    def _interrupt(self, why: str) -> None:
        """Have the main thread abandon the recording at its next line of Python."""

        def late(_: Any) -> int:
            try:
                self.abandon(why)
            except BaseException as error:  # ctypes would print it, and drop a Ctrl-C
                if not guard.again(error):
                    guard.note(self.loop.recorder.folder, "burst", error)
            return 0

        self._call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(late)
        ctypes.pythonapi.Py_AddPendingCall(self._call, None)

    def consider(self) -> None:
        """Decide what is next. A fault ends the bursts, and nothing else."""
        if self.loop.boundary is not None and self.loop.recorder.facts:
            self.loop.contained("burst", self._consider)

    def _consider(self) -> None:
        if self._result is not None:
            self._keep()
        elif self.off is None and self.wanted is None and self._chosen():
            self._decide()

    def _chosen(self) -> bool:
        """Whether this process is one to record."""
        facts = self.loop.recorder.facts
        if self.profiler is None:
            self.profiler = Profiler(sys.modules["torch"], facts.get("device") == "cuda")
            self.off = self.profiler.refused()
            if self.off is not None:
                self._tell()
        rank = facts.get("rank") or os.environ.get("RANK") or "0"
        return self.off is None and str(rank) == "0"

    def _decide(self) -> None:
        lengths = pace.present(self.ends.copy())
        elapsed = (now() - self.loop.recorder.facts["first_step"]) / 1e9
        compiled, before = _compiles(), self._compiled
        self._compiled = compiled
        share = self._wait_share()
        early = self.steps < pace.LEAST_STEPS or elapsed < pace.LEAST_S
        if early or compiled != before or not pace.settled(lengths):
            self._odd = 0
            return
        if self._resumed:
            self._compare()
            return
        if self.picture is not None:
            odd = pace.changed(self.picture, (median(lengths), share))
            self._odd = self._odd + 1 if odd else 0
            if self._odd < PATIENCE:
                return
        self._plan((median(lengths), share), elapsed)

    def _plan(self, picture: tuple[float, float], elapsed: float) -> None:
        if self._nodes is None:
            self.wanted = self._count
            return
        price = self._price_s()
        if self._events > pace.MOST_EVENTS:
            self._end("a step has too many operators")
        elif self.attempts >= MOST_ATTEMPTS or len(self._recorded()) >= MOST_BURSTS:
            self._end("as many as a run may have")
        elif pace.affordable(price, self.spent_s, elapsed):
            self.attempts += 1
            self.picture, self._odd, self._nodes = picture, 0, None
            self.wanted = self._start

    def _price_s(self) -> float:
        told = self.loop.recorder.facts.get("optimizer") or {}
        cuda = self.profiler is not None and self.profiler.cuda
        together = bool(told.get("fused") or told.get("foreach") or (cuda and told.get("foreach")))
        tensors = int(told.get("tensors") or 0)
        self._events = STEPS * pace.events(self._nodes or tensors, tensors, together)
        if self._event_s:
            return self._events * self._event_s
        return pace.price_s(self._events, cuda)

    def _recorded(self) -> list[dict[str, Any]]:
        return [one for one in self.told if one["state"] == "recorded"]

    def _step_s(self) -> float:
        """Of the present steps before the recording."""
        ends = [end for end in self.ends.copy() if end <= self._begin]
        return median(pace.present(ends) or [0.0])

    def _wait_share(self) -> float:
        """Share of the time since the last look that was waited for data."""
        (waited, looked), self._waited = self._waited, (self.loop.waited, now())
        return (self._waited[0] - waited) / max(self._waited[1] - looked, 1) if looked else 0.0

    def _keep(self) -> None:
        with self._saving:
            if self._result is not None:
                self._save()

    def _save(self) -> None:
        """Write the trace. Freeing it holds the interpreter's lock: that is a disturbance too."""
        result, self._result = self._result, None
        one, number = dict(self.told[-1]), len(self._recorded())
        begin = now()
        path = self.loop.recorder.place(f"burst-{number}.json")
        try:
            one["bytes"] = save(result, path)
            one["file"] = os.path.basename(path)
        except OSError as error:
            one["state"] = f"not written: {error.strerror or error}"
            self.off = "a trace could not be written"
        del result
        end = now()
        one["cost_s"] += (end - begin) / 1e9
        self.spent_s += (end - begin) / 1e9
        self._event_s = one["cost_s"] / max(self._events, 1)
        self.windows = [*self.windows, (begin, end)]
        self.told = [*self.told[:-1], one]
        self._resumed = end
        self._tell()

    def _compare(self) -> None:
        """Whether steps are as fast as before the burst."""
        ends = [end for end in self.ends.copy() if end >= self._resumed]
        lengths = [(b - a) / 1e9 for a, b in pairwise(ends)]
        before = self.told[-1]["before_s"]
        if len(lengths) < AFTER_STEPS:
            return
        first = median(lengths[:AFTER_STEPS])
        after = median(lengths[AFTER_STEPS:] or [first])
        slower = min(first, after) > pace.SLOWER * before
        if slower and len(lengths) < 2 * AFTER_STEPS:
            return
        self._resumed = 0
        self.told = [*self.told[:-1], {**self.told[-1], "after_s": first if not slower else after}]
        if slower:
            self.off = f"steps stayed slower after it ({min(first, after) / before - 1:.0%})"
        self._tell()

    def _end(self, why: str) -> None:
        self.off = why
        self._tell()

    def _tell(self) -> None:
        self.loop.recorder.documents["bursts.json"] = {
            "windows": self.windows,
            "bursts": self.told,
            "off": self.off,
            "spent_s": round(self.spent_s, 6),
        }


def install(loop: Loop) -> None:
    """Be ready, unless it was asked not to."""
    if os.environ.get("WHYIDLE_PROFILE") == "off":
        return
    loop.bursts = bursts = Bursts(loop)
    loop.boundary = bursts.boundary
    loop.undo["burst"] = bursts.close
    own.watch(loop, bursts.forbid)


def _on_main() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def _sequence() -> int:
    """How many nodes of autograd graphs this thread has made."""
    autograd = sys.modules["torch"]._C._autograd
    number: Callable[[], int] = getattr(autograd, "_get_sequence_nr", int)
    return number()


def _compiles() -> int:
    """How many frames torch.compile has looked at."""
    utils = sys.modules.get("torch._dynamo.utils")
    return int(utils.counters["frames"]["total"]) if utils is not None else 0
