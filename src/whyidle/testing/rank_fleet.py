"""Several ranks of an imagined job that meet in collectives, each with a clock of its own.

Every rank is a ``Builder``; ``collective`` starts on each rank when that rank gets there, and ends
on all of them together, ``transfer`` after the last has come. ::

    fleet = Fleet(4, offsets_ns=(0, 3_000_000, -250_000, 0))
    for _ in range(5):
        with fleet.step():
            for index, rank in enumerate(fleet.ranks):
                rank.op("aten::mm", kernels=[("sgemm", us(900 + 100 * index))])
            fleet.collective(us(300))
            fleet.join()
    timelines = fleet.timelines()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from whyidle.model.timeline import Timeline
from whyidle.testing.builder import ARRIVE_NS, LAUNCH_NS, Builder, us

_CALL_NS = us(10)


class Fleet:
    """Ranks of one job. ``offsets_ns`` is how far each rank's clock is ahead; ``leave_ns(rank,
    collective)`` how much later than the first that rank leaves a collective."""

    def __init__(
        self,
        count: int,
        *,
        offsets_ns: Sequence[int] = (),
        leave_ns: Callable[[int, int], int] = lambda rank, number: 0,  # noqa: ARG005
        **builder: Any,
    ) -> None:
        world = builder.pop("world_size", count)
        self.ranks = [Builder(rank=rank, world_size=world, **builder) for rank in range(count)]
        self._offsets = list(offsets_ns) or [0] * count
        self._leave = leave_ns
        self._met = 0

    @contextmanager
    def step(self) -> Iterator[None]:
        """Record one profiler step on every rank."""
        with ExitStack() as stack:
            for rank in self.ranks:
                stack.enter_context(rank.step())
            yield

    def collective(self, transfer: int, *, stream: int = 20, **options: Any) -> None:
        """Let all ranks meet in a collective."""
        begins = [self._begin(rank, stream) for rank in self.ranks]
        end = max(begins) + transfer
        for index, (rank, begin) in enumerate(zip(self.ranks, begins, strict=True)):
            late = self._leave(index, self._met)
            rank.collective(end + late - begin, stream=stream, **options)
        self._met += 1

    def join(self) -> None:
        """Make the compute stream of every rank wait for the collectives."""
        for rank in self.ranks:
            rank.join()

    def timelines(self) -> list[Timeline]:
        """Return the recordings, each in its rank's clock."""
        recordings: list[Timeline] = []
        for rank, offset in zip(self.ranks, self._offsets, strict=True):
            for event in rank.events:
                event["ts"] += offset / 1_000
            timeline = rank.timeline()
            for event in rank.events:
                event["ts"] -= offset / 1_000
            path = f"rank{len(recordings)}.json"
            recordings.append(replace(timeline, source=replace(timeline.source, path=path)))
        return recordings

    @staticmethod
    def _begin(rank: Builder, stream: int) -> int:
        free = max(rank._free.get(stream, 0), rank._free.get(7, 0))
        return max(rank.now + _CALL_NS + LAUNCH_NS + ARRIVE_NS, free + 1_000)
