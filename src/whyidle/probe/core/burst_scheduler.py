"""When the next burst is worth it: decided by the sampler's thread, about once a second.

Never while steps change, unless they never stop changing, while something compiles or where the
price is over budget (``pace``). After a burst steady steps are compared with those before it; if
they stay slower there is no other burst.
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
"""of a burst"""
MOST_BURSTS = 4
MOST_ATTEMPTS = 8
PATIENCE = 5
"""looks for which a changed picture must last"""
RESTLESS = {False: 6, True: 3}
"""looks without steady steps, after which unsteady ones are recorded; of a run that is only looked
at"""
AFTER_STEPS = 20
"""steps after a burst before they are compared; as many again, if they look slower"""


class Recordings(Protocol):
    """The bursts of one process, as far as their schedule depends on them."""

    events: Events
    profiler: OpProfiler | None
    look: bool
    spent_s: float
    told: list[dict[str, Any]]
    wanted: Callable[[], None] | None

    @property
    def recorded(self) -> list[dict[str, Any]]:
        """Those that came to their end."""

    def start(self) -> None:
        """A burst begins at this boundary."""

    def rest(self, why: str) -> None:
        """No other one is worth it."""

    def puts_off(self, needs_s: float) -> None:
        """The next one is too dear yet."""

    def tell(self) -> None:
        """Have the present state written down."""


class BurstSchedule:
    """What is known of the price and the picture of one process's steps."""

    def __init__(self, bursts: Recordings) -> None:
        self.bursts = bursts
        self.attempts = 0
        self.picture: tuple[float, float] | None = None
        """(step time, share of data wait) of the last burst"""
        self.resumed = 0
        """when the last burst was over and written, while steps are not yet compared"""
        self._nodes: int | None = None
        self._first_node = self._counting = 0
        self.counted_s: tuple[int, float] | None = None
        """nodes of one step's graph, and how long that step took"""
        self._events, self._most, self._event_s = 0, 0, 0.0
        self._odd = self._compiled = self._unsettled = 0
        self._waited = (0, 0)

    def note_cost(self, seconds: float) -> None:
        """What the burst that was planned has taken: the next one's price."""
        self._event_s = seconds / max(self._events, 1)

    def allow_retry(self) -> None:
        """The burst that was planned came to nothing: another may show what it would have."""
        self.picture = None

    def plan_next(self) -> None:
        """Plan what the next boundary is for, or nothing."""
        lengths = burst_budget.present_lengths(self.bursts.events.ends.copy())
        elapsed = (clock_ns() - self.bursts.events.recorder.facts["first_step"]) / 1e9
        compiled, before = self._compilation_count(), self._compiled
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
        """Whether steps are steady, or have not been for so long that this is how they are: a host
        that runs ahead of its device makes many short ones, and then waits."""
        if len(lengths) < burst_budget.RECENT_STEPS:
            return False
        self._unsettled = 0 if burst_budget.is_steady(lengths) else self._unsettled + 1
        return not self._unsettled or self._unsettled > RESTLESS[self.bursts.look]

    def _plan_burst(self, picture: tuple[float, float], elapsed: float) -> None:
        if self._nodes is None:
            self.bursts.wanted = self._count_nodes
            return
        price = self._price_s()
        share = burst_budget.LOOK_BUDGET if self.bursts.look else burst_budget.BUDGET
        if self._most > burst_budget.MOST_EVENTS:
            self.bursts.rest("a step has too many operators")
        elif self.attempts >= MOST_ATTEMPTS or len(self.bursts.recorded) >= MOST_BURSTS:
            self.bursts.rest("as many as a run may have")
        elif burst_budget.is_affordable(price, self.bursts.spent_s, elapsed, share):
            self.attempts += 1
            self.picture, self._odd, self._nodes = picture, 0, None
            self.bursts.wanted = self.bursts.start
        else:
            self.bursts.puts_off(burst_budget.needed_s(price, self.bursts.spent_s, share))

    def _price_s(self) -> float:
        facts = self.bursts.events.recorder.facts
        told: OptimizerFacts | dict[str, Any] = facts.get("optimizer") or {}
        cuda = self.bursts.profiler is not None and self.bursts.profiler.cuda
        together = bool(told.get("fused") or (cuda and told.get("foreach")))
        tensors = int(told.get("tensors") or 0)
        nodes = self._nodes or tensors
        likely = burst_budget.LIKELY_PER_NODE
        self._most = STEPS * burst_budget.estimate_events(nodes, tensors, together)
        self._events = STEPS * burst_budget.estimate_events(nodes, tensors, together, likely)
        if self._event_s:
            return self._events * self._event_s
        return burst_budget.price_s(self._events, cuda)

    def _wait_share(self) -> float:
        """Share of the time since the last look that was waited for data."""
        (waited, looked), self._waited = self._waited, (self.bursts.events.waited, clock_ns())
        return (self._waited[0] - waited) / max(self._waited[1] - looked, 1) if looked else 0.0

    def _compare_after_burst(self) -> None:
        """Whether steps are as fast as before the burst; of unsteady ones nobody can tell."""
        if self._unsettled:
            self.resumed = 0
            return
        ends = [end for end in self.bursts.events.ends.copy() if end >= self.resumed]
        lengths = [(b - a) / 1e9 for a, b in pairwise(ends)]
        before = self.bursts.told[-1]["before_s"]
        if len(lengths) < AFTER_STEPS:
            return
        first = median(lengths[:AFTER_STEPS])
        after = median(lengths[AFTER_STEPS:] or [first])
        slower = min(first, after) > burst_budget.SLOWER * before
        if slower and len(lengths) < 2 * AFTER_STEPS:
            return
        self.resumed = 0
        *earlier, last = self.bursts.told
        self.bursts.told = [*earlier, {**last, "after_s": after if slower else first}]
        if slower:
            self.bursts.rest(f"steps stayed slower after it ({min(first, after) / before - 1:.0%})")
        else:
            self.bursts.tell()

    def _compilation_count(self) -> int:
        profiler = self.bursts.profiler
        return profiler.count_compilations() if profiler is not None else 0

    def _nodes_made(self) -> int:
        profiler = self.bursts.profiler
        return profiler.count_nodes() if profiler is not None else 0

    # -- on the training thread ---------------------------------------------------------------

    def _count_nodes(self) -> None:
        self._first_node, self._counting = self._nodes_made(), clock_ns()
        self.bursts.wanted = self._note_node_count

    def _note_node_count(self) -> None:
        """How many nodes one step's autograd graph has tells how many events it will be."""
        self._nodes, self.bursts.wanted = self._nodes_made() - self._first_node, None
        self.counted_s = self._nodes, (clock_ns() - self._counting) / 1e9
