"""Decides when the next burst is worth its cost: on the sampler's thread, about once a second.

No burst begins while step times change (unless they never settle), while code is compiled, or where
its price is over budget (``burst_budget``). After a burst, steady steps are compared with those
before it; if they stay slower, no further profile follows.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Protocol

from ..wire import OptimizerFacts
from . import burst_budget
from .burst_budget import median
from .events import Events
from .op_profiler import OpProfiler
from .recorder import clock_ns

STEPS = 3
"""steps in a burst; one where three have too many operators"""
MOST_BURSTS = 4
MOST_ATTEMPTS = 8
PATIENCE = 5
"""checks for which a changed step time must last"""
RESTLESS = 3
"""checks without steady steps after which unsteady ones are recorded: jobs may last only seconds"""
AFTER_STEPS = 20
"""steps after a burst before they are compared; twice as many if they seem slower"""


class Recordings(Protocol):
    """What the schedule needs of the bursts of one process."""

    events: Events
    profiler: OpProfiler | None
    look: bool
    spent_s: float
    entries: list[dict[str, Any]]
    windows: list[tuple[int, int]]
    wanted_work: Callable[[], None] | None

    @property
    def finished_recordings(self) -> list[dict[str, Any]]:
        """The completed bursts."""

    def start(self) -> None:
        """Begin a burst at this step boundary."""

    def end_bursts(self, why: str) -> None:
        """Plan no further profile, for this reason."""

    def postpone_burst(self, needs_s: float) -> None:
        """Postpone the next burst until ``needs_s`` of training have passed."""

    def publish_state(self) -> None:
        """Publish the current state."""


class BurstSchedule:
    """The price of a burst and the step times of one process."""

    def __init__(self, bursts: Recordings) -> None:
        self.bursts = bursts
        self.attempts, self.steps = 0, STEPS
        self.picture: tuple[float, float] | None = None
        """(step time, share of data wait) at the last burst"""
        self.resumed = 0
        """when the last burst was written, until its steps have been compared; else 0"""
        self._nodes: int | None = None
        self._estimated: int | None = None
        """events in one step, where the profiler can tell"""
        self._first_node = self._counting = 0
        self.counted_s: tuple[int, float] | None = None
        """nodes in one step's graph, and how long that step took, s"""
        self._events, self._most, self._event_s = 0, 0, 0.0
        self._odd = self._compiled = self._unsettled = 0
        self._waited = (0, 0)

    def note_cost(self, seconds: float) -> None:
        """Note the cost of a finished burst, from which the next one's price follows."""
        self._event_s = seconds / max(self._events, 1)

    def allow_retry(self) -> None:
        """Allow another burst in place of one that failed."""
        self.picture = None

    def plan_next(self) -> None:
        """Plan the work at the next step boundary, if any."""
        lengths = burst_budget.present_lengths(self.bursts.events.ends.copy())
        elapsed = (clock_ns() - self.bursts.events.recorder.facts["first_step"]) / 1e9
        profiler, before = self.bursts.profiler, self._compiled
        compiled = profiler.count_compilations() if profiler is not None else 0
        self._compiled = compiled
        share = self._wait_share()
        least = burst_budget.LEAST_STEPS, burst_budget.LEAST_S
        if self.bursts.look:
            least = burst_budget.LOOK_STEPS, burst_budget.LOOK_S
        early = self.bursts.events.steps < least[0] or elapsed < least[1]
        if early or compiled != before or not self._is_steady(lengths):
            self._odd = 0
            return
        if self.resumed:
            self._compare_after_burst()
            return
        if self.picture is not None:
            odd = burst_budget.has_changed(self.picture, (median(lengths), share))
            self._odd = self._odd + 1 if odd else 0
            if self._odd < PATIENCE:
                return
        self._plan_burst((median(lengths), share), elapsed)

    def _is_steady(self, lengths: list[float]) -> bool:
        """Whether steps are steady, or have been unsteady for so long that they will stay so: a
        host that runs ahead of its device makes many short steps, and then waits."""
        if len(lengths) < burst_budget.RECENT_STEPS:
            return False
        self._unsettled = 0 if burst_budget.is_steady(lengths) else self._unsettled + 1
        return not self._unsettled or self._unsettled > RESTLESS

    def _plan_burst(self, picture: tuple[float, float], elapsed: float) -> None:
        if self._nodes is None and not self._estimate_events(picture[0]):
            self.bursts.wanted_work = self._count_nodes
            return
        price = self._price_s()
        share = burst_budget.LOOK_BUDGET if self.bursts.look else burst_budget.BUDGET
        needed = burst_budget.needed_s(price, self.bursts.spent_s, share)
        if not self.attempts:
            needed = min(needed, burst_budget.first_needed_s(price))
        if self._most > burst_budget.MOST_EVENTS:
            self.bursts.end_bursts("a step has too many operators")
        elif self.attempts >= MOST_ATTEMPTS or len(self.bursts.finished_recordings) >= MOST_BURSTS:
            self.bursts.end_bursts("the limit of recordings per run is reached")
        elif needed <= elapsed:
            self.attempts += 1
            self.picture, self._odd, self._nodes = picture, 0, None
            self.bursts.wanted_work = self.bursts.start
        else:
            self.bursts.postpone_burst(needed)

    def _estimate_events(self, step_s: float) -> bool:
        """Let the profiler estimate the events of a step; return whether it can."""
        begin, profiler = clock_ns(), self.bursts.profiler
        self._estimated = None if profiler is None else profiler.estimate_events(step_s)
        if self._estimated is None:
            return False
        self.bursts.windows = [*self.bursts.windows, (begin, clock_ns())]
        self._nodes = 0
        return True

    def _price_s(self) -> float:
        facts = self.bursts.events.recorder.facts
        optimizer: OptimizerFacts | dict[str, Any] = facts.get("optimizer") or {}
        cuda = self.bursts.profiler is not None and self.bursts.profiler.cuda
        together = bool(optimizer.get("fused") or (cuda and optimizer.get("foreach")))
        tensors = int(optimizer.get("tensors") or 0)
        if self._estimated is not None:
            self._most = self._events = self._estimated
        else:
            nodes, likely = self._nodes or tensors, burst_budget.LIKELY_PER_NODE
            self._most = burst_budget.estimate_events(nodes, tensors, together)
            self._events = burst_budget.estimate_events(nodes, tensors, together, likely)
        self.steps = STEPS if STEPS * self._most <= burst_budget.MOST_EVENTS else 1
        self._most, self._events = self.steps * self._most, self.steps * self._events
        if self._event_s:
            return self._events * self._event_s
        return burst_budget.price_s(self._events, cuda)

    def _wait_share(self) -> float:
        """Share of the time since the last check that the job waited for data."""
        (waited, looked), self._waited = self._waited, (self.bursts.events.waited, clock_ns())
        return (self._waited[0] - waited) / max(self._waited[1] - looked, 1) if looked else 0.0

    def _compare_after_burst(self) -> None:
        """Compare steps with those before the burst; plan no further profile if they are slower."""
        if self._unsettled:  # unsteady steps cannot be compared
            self.resumed = 0
            return
        ends = [end for end in self.bursts.events.ends.copy() if end >= self.resumed]
        lengths = [(b - a) / 1e9 for a, b in pairwise(ends)]
        before = self.bursts.entries[-1]["before_s"]
        if len(lengths) < AFTER_STEPS:
            return
        first = median(lengths[:AFTER_STEPS])
        after = median(lengths[AFTER_STEPS:] or [first])
        slower = min(first, after) > burst_budget.SLOWER * before
        if slower and len(lengths) < 2 * AFTER_STEPS:
            return
        self.resumed = 0
        *earlier, last = self.bursts.entries
        self.bursts.entries = [*earlier, {**last, "after_s": after if slower else first}]
        if slower:
            self.bursts.end_bursts(
                f"steps stayed slower after it ({min(first, after) / before - 1:.0%})"
            )
        else:
            self.bursts.publish_state()

    def _nodes_made(self) -> int:
        profiler = self.bursts.profiler
        return profiler.count_nodes() if profiler is not None else 0

    # -- on the training thread ---------------------------------------------------------------

    def _count_nodes(self) -> None:
        self._first_node, self._counting = self._nodes_made(), clock_ns()
        self.bursts.wanted_work = self._note_node_count

    def _note_node_count(self) -> None:
        """Count the nodes of one step's autograd graph, which predict its number of events."""
        self._nodes, self.bursts.wanted_work = self._nodes_made() - self._first_node, None
        self.counted_s = self._nodes, (clock_ns() - self._counting) / 1e9
