"""Where the host waits for the device, why, and from which operator."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.device.kernel_launches import KernelLaunches
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.partition.host_activity import interrupting_rows
from whyidle.analysis.partition.idle_gaps import neighbour_calls
from whyidle.analysis.steps.step_scope import StepScope
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

FALLBACK_NS = 20_000
"""host work this long between a copy back and a copy forth exceeds dispatching the copies"""
TENSOR_BYTES = 1_000
"""smaller copies are scalars, or a few of them"""
WIDER = 8
"""ratio of the widest element to the narrowest (float64, uint8)"""
NEAR = 8
"""copies of all threads to search for the next one on a thread"""


class DeviceWaits:
    """Waits in scope that held up the host. Rows are of the host's events."""

    def __init__(self, facts: StepScope, launching: KernelLaunches) -> None:
        self._facts, self._launching = facts, launching
        rows = launching.replay.waits
        self.rows = rows[facts.host_scope.contains_times(facts.timeline.host.start[rows])]

    @cached_property
    def avoidable_waits(self) -> I64:
        """Waits with launches before and after that no copy to the device, allocator call,
        convolution search, CPU fallback or pause explains."""
        waits = [self.copy_waits, self.allocator_waits, self.search_waits, self.pause_waits]
        rows = np.setdiff1d(self.rows, np.concatenate([*waits, *self.cpu_fallbacks]))
        host, calls = self._facts.timeline.host, self._launching.calls
        begins = host.start[calls]
        if not len(begins):
            return rows[:0]
        return rows[(host.start[rows] > begins.min()) & (host.end[rows] <= begins.max())]

    @cached_property
    def copy_waits(self) -> I64:
        """Waits for copies to the device, and synchronisations right after them."""
        return self.waits_in(self._copy_calls("h2d"))

    def waits_in(self, calls: I64) -> I64:
        """Return waits in some calls, or right after one of them on its thread."""
        return self.rows[np.isin(self.rows, calls) | np.isin(self._previous_rows, calls)]

    @cached_property
    def allocator_waits(self) -> I64:
        """Allocator calls that waited, and synchronisations right before or after one."""
        calls = self._facts.host.rows_of(Role.ALLOCATOR)
        near = np.isin(self._next_rows, calls) | np.isin(self._previous_rows, calls)
        return self.rows[np.isin(self.rows, calls) | near]

    @cached_property
    def search_waits(self) -> I64:
        """Synchronisations inside convolutions, where the library times its algorithms. A launch
        that waits there has found the queue full."""
        return self.in_convolutions(np.intersect1d(self.rows, self._facts.host.rows_of(Role.SYNC)))

    def in_convolutions(self, rows: I64) -> I64:
        """Return the host events inside a convolution, in scope or not."""
        host, calls = self._facts.timeline.host, self._facts.timeline.rows_of(Role.CONVOLUTION)
        inside = np.zeros(len(rows), dtype=bool)
        for thread in np.unique(host.thread[rows]):
            ops = calls[host.thread[calls] == thread]
            covered = union_of(host.start[ops], host.end[ops]).contains_times(host.start[rows])
            inside |= covered & (host.thread[rows] == thread)
        return rows[inside]

    @cached_property
    def pause_waits(self) -> I64:
        """Waits inside saving, evaluating or publishing, which need what they wait for."""
        host, begin = self._facts.timeline.host, self._facts.timeline.host.start[self.rows]
        inside = np.zeros(len(self.rows), dtype=bool)
        for role in (Role.CHECKPOINT, Role.EVALUATION, Role.LOGGING):
            rows = interrupting_rows(self._facts.host, self._facts.steps, role)
            inside |= union_of(host.start[rows], host.end[rows]).contains_times(begin)
        return self.rows[inside]

    @cached_property
    def cpu_fallbacks(self) -> list[I64]:
        """CPU work in the middle of a step, as rows of calls: a copy back, operators (or unrecorded
        work between copies of similar size), a copy forth, and no launch between."""
        host = self._facts.timeline.host
        back, forth = self._copy_calls("d2h"), self._copy_calls("h2d")
        launched = host.start[np.setdiff1d(self._launching.calls, forth)]
        runtime = np.flatnonzero(host.kind == HostKind.RUNTIME)
        loading = self._facts.host.time_in(Role.LOADER)
        fallbacks = []
        for call in back[self._facts.host_scope.contains_times(host.start[back])]:
            forward = self._next_of(forth, int(call))
            if forward is None:
                continue
            begin, end = host.end[[call]], host.start[[forward]]
            quick = np.searchsorted(launched, begin) == np.searchsorted(launched, end)
            quick &= loading.length_inside(begin, end) == 0
            if quick.all() and (
                self._did_work(int(call), int(begin[0]), int(end[0]))
                or self._is_round_trip(int(call), forward)
            ):
                edges = np.searchsorted(host.start[runtime], [host.start[call], end[0] + 1])
                following = self._neighbour_rows[1][[forward]]
                waiting = following[np.isin(following, self._facts.host.rows_of(Role.SYNC))]
                fallbacks.append(np.append(runtime[slice(*edges)], waiting))
        return fallbacks

    def _next_of(self, rows: I64, call: int) -> int | None:
        host = self._facts.timeline.host
        first = int(np.searchsorted(host.start[rows], host.end[call]))
        following = rows[first : first + NEAR]
        following = following[host.thread[following] == host.thread[call]]
        if not len(following):
            return None
        bounds = [host.end[call], host.start[following[0]]]
        begin, end = np.searchsorted(self._facts.steps.on_host[0], bounds, side="right")
        return int(following[0]) if begin == end else None

    def operator_around(self, row: int) -> str | None:
        """Return the outermost tensor operator around a wait, such as ``aten::item``."""
        timeline, host = self._facts.timeline, self._facts.timeline.host
        rows, nesting = self._facts.ops[1].get(int(host.thread[row]), (None, None))
        if rows is None or nesting is None:
            return None
        around = nesting.enclosing_rows(int(host.start[row]))
        named = [int(host.name[rows[i]]) for i in around]
        return next((timeline.names[i] for i in named if timeline.operator(i).sized), None)

    def operator_row(self, row: int) -> int:
        """Return the row of the innermost operator around a wait, or the wait's own."""
        host = self._facts.timeline.host
        rows, nesting = self._facts.ops[1].get(int(host.thread[row]), (None, None))
        around = nesting.enclosing_rows(int(host.start[row])) if nesting is not None else []
        return int(rows[around[0]]) if around and rows is not None else row

    def _did_work(self, call: int, begin: int, end: int) -> bool:
        host = self._facts.timeline.host
        rows, _ = self._facts.ops[1].get(int(host.thread[call]), (np.empty(0, np.int64), None))
        low, high = np.searchsorted(host.start[rows], [begin, end])
        inside = rows[low:high]
        inside = inside[host.end[inside] <= end]
        inside = np.setdiff1d(inside, self._facts.timeline.rows_of(Role.DATA_MOVEMENT))
        return int((host.end[inside] - host.start[inside]).sum()) >= FALLBACK_NS

    def _is_round_trip(self, back: int, forth: int) -> bool:
        """Whether two copies of similar size surround unrecorded work of the thread."""
        host, sizes = self._facts.timeline.host, self._copy_sizes
        least = min(sizes.get(back, 0), sizes.get(forth, 0))
        if least < TENSOR_BYTES or max(sizes[back], sizes[forth]) > WIDER * least:
            return False
        begin, end = host.end[[back]], host.start[[forth]]
        return int((end - begin - self._runtime_time.length_inside(begin, end))[0]) >= FALLBACK_NS

    @cached_property
    def _runtime_time(self) -> Intervals:
        host = self._facts.timeline.host
        rows = np.flatnonzero(host.kind == HostKind.RUNTIME)
        return union_of(host.start[rows], host.end[rows])

    @cached_property
    def _copy_sizes(self) -> dict[int, int]:
        calls, sizes = self._facts.launches.call, self._facts.device.size
        moved = np.flatnonzero((calls >= 0) & (self._facts.direction != ""))
        return {int(calls[row]): int(sizes[row]) for row in moved}

    def _copy_calls(self, direction: str) -> I64:
        calls = self._facts.launches.call[self._facts.direction == direction]
        return np.unique(calls[calls >= 0])

    @cached_property
    def _neighbour_rows(self) -> tuple[I64, I64]:
        return neighbour_calls(self._facts.timeline)

    @cached_property
    def _previous_rows(self) -> I64:
        return self._neighbour_rows[0][self.rows]

    @cached_property
    def _next_rows(self) -> I64:
        return self._neighbour_rows[1][self.rows]
