"""What truly happened: when each stream was busy with what, and when the host was blocked."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable
from typing import NamedTuple

from emulator.device.stream import Cost

WANTED = "WHYIDLE_EMULATED_TRUTH"
"""the variable with which somebody wants all of it"""
LONGEST_NS = 20_000_000
"""neighbours are joined into one interval up to this length, so that rates stay fine"""
MOST = 8192
"""intervals that are kept where nobody wants them all: a device does not fill its host's memory,
and whoever looks every tenth of a second misses none"""


class Busy(NamedTuple):
    """One interval of a stream."""

    begin: int
    end: int
    cost: Cost
    items: int


class Blocked(NamedTuple):
    """One interval in which a thread waited for the device, or for its memory."""

    begin: int
    end: int
    why: str
    thread: int


class Record:
    """Of one device: ``whole``, or the last of it."""

    def __init__(self, whole: bool = True) -> None:
        self.whole = whole
        self.busy: dict[int, list[Busy]] = {}
        self.gone: dict[int, int] = {}
        """how many of a stream's first intervals are not kept any more"""
        self.blocked: list[Blocked] = []
        self.launches = 0
        self.heard: Callable[[int, int, int, Cost], None] | None = None
        """told of every item, while a profiler runs"""

    def ran(self, stream: int, begin: int, end: int, cost: Cost) -> None:
        """An item of a stream; neighbours of one kind are joined."""
        busy = self.busy.setdefault(stream, [])
        self.launches += 1
        if self.heard is not None:
            self.heard(stream, begin, end, cost)
        last = busy[-1] if busy else None
        if (
            last is not None
            and last.end == begin
            and last.cost.kind == cost.kind
            and end - last.begin <= LONGEST_NS
        ):
            sums = [a + b for a, b in zip(last.cost[1:6], cost[1:6], strict=True)]
            busy[-1] = Busy(last.begin, end, Cost._make([cost.kind, *sums, None]), last.items + 1)
        elif end > begin:
            busy.append(Busy(begin, end, cost._replace(launch=None), 1))
            if len(busy) > MOST and not self.whole:
                del busy[: MOST // 2]
                self.gone[stream] = self.gone.get(stream, 0) + MOST // 2

    def waited(self, begin: int, end: int, why: str) -> None:
        """A thread was blocked."""
        self.blocked.append(Blocked(begin, end, why, threading.get_native_id()))
        if len(self.blocked) > MOST and not self.whole and self.heard is None:
            del self.blocked[: MOST // 2]

    def until(self, moment: int) -> dict[int, list[Busy]]:
        """What had begun by then, the last interval cut."""
        kept = {}
        for stream, busy in self.busy.items():
            some = busy[: bisect.bisect_left(busy, moment, key=lambda each: each.begin)]
            if some and some[-1].end > moment:
                some[-1] = some[-1]._replace(end=moment)
            kept[stream] = some
        return kept


def union(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Overlapping and touching intervals joined, in order of time."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(intervals):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined
