"""Measures the device's progress by events that are read later, without waiting for the device.

A *window* is one optimizer step, from the end of a step of an optimizer to the end of its next one.
In a window, a *mark* is recorded on the current stream where an optimizer has stepped, where a
batch is requested and where it is ready, and where a backward pass begins and ends. Before each
mark, the previous one is queried for completion. A window is read at the beginning of a later one,
once its last mark has completed. Windows are rare, so their average cost per step is small
(``STRIDES``).

Every call is made by the thread that trains. None is made while a CUDA graph is captured by this
thread or, as far as the framework reports it, by any other, as a query would break the capture.
None is made in a forked child. Nothing waits: marks that do not complete end the measurement.

``PID.device`` has one row per mark, see ``MARK``.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Any, NamedTuple, Protocol

from ..wire import MARK
from .events import Events
from .listener import Listener
from .recorder import clock_ns

STEPPED, BATCH, BACKWARD, BACKWARD_END, ASKED = 1, 2, 3, 4, 5
NONE_BEFORE = 2

STRIDES = (9, 17, 13, 23, 19)
"""steps from one window to the next, in turn, and odd, so that loaders whose every n-th batch is
late are seen in every phase. Steps are counted, since a time would more often end in a long step"""
LOOK_STRIDES = (3, 7, 5)
"""the same with ``--profile look``, for runs of about a hundred steps"""
STEP_NS = 2_500_000
"""windows are no denser than if steps took this long: 24 a second"""
LONG_STEP_NS = 50_000_000
"""nor rarer than if they took this long"""
MOST_NS = 2_000_000_000
"""longest time between windows, if steps have become longer"""
MOST_MARKS = 24
MOST_WAITING = 4
"""most windows that wait for completion"""


class DeviceClock(Protocol):
    """The events of a device. No call may wait."""

    def event(self) -> Any:
        """Create an event that can be timed."""

    def record(self, event: Any) -> int:
        """Record the event behind all work of the current stream; return the stream's number."""

    def query(self, event: Any) -> bool:
        """Whether the event has completed."""

    def elapsed_ms(self, first: Any, last: Any) -> float:
        """Return the time between two completed events."""

    def is_capturing(self) -> bool:
        """Whether work is being captured instead of run: then nothing above may be called."""


class Mark(NamedTuple):
    """One event of a window; fields as in ``wire.MARK``."""

    kind: int
    begin: int
    host: int
    event: Any
    before: int


class DeviceMarks(Listener):
    """The windows of one training thread, on the current stream of its device. ``open`` holds the
    marks of the current window."""

    listener = "device"
    wants_steps = True

    def __init__(self, events: Events, clock: DeviceClock) -> None:
        self.events, self.clock = events, clock
        self.thread = threading.get_ident()
        self.open: list[Mark] = []
        self.waiting: deque[list[Mark]] = deque()
        self.free: list[Any] = []
        self.windows = 0
        self._key = self._number = self._since = self._turn = 0
        look = os.environ.get("WHYIDLE_PROFILE") == "look"
        self._strides = LOOK_STRIDES if look else STRIDES
        self._begun, self._due = clock_ns(), self._strides[0]
        os.register_at_fork(after_in_child=self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        """The device and its events are the parent's: a child must not even free them."""
        self.thread = -1
        self.events.undo.pop(self.listener, bool)()

    @property
    def wants_detail(self) -> bool:  # type: ignore[override]
        """Whether a window is open."""
        return bool(self.open)

    def on_batch_request(self) -> None:
        """Mark the request of a batch."""
        if self.open:
            self.add_mark(ASKED, clock_ns())

    def on_batch_ready(self, begin: int) -> None:
        """Mark that the batch is ready."""
        self.add_mark(BATCH, begin)

    def on_backward_begin(self, args: tuple[Any, ...]) -> None:
        """Mark the begin of a backward pass."""
        if self.open:
            self.add_mark(BACKWARD, clock_ns())

    def on_backward_end(self, begin: int) -> None:
        """Mark its end."""
        self.add_mark(BACKWARD_END, begin)

    def on_step(self, optimizer: Any) -> None:
        """End, continue or begin a window after an optimizer's step."""
        self._since += 1
        if self.open:
            self.add_mark(STEPPED, clock_ns())
            if self.open and id(optimizer) == self._key and self._is_own_thread():
                self.waiting.append(self.open)
                self.open = []
            return
        moment = clock_ns()
        early = self._since < self._due and moment - self._begun < MOST_NS
        if early or not self._is_own_thread() or self._is_recorded():
            return
        self._due = self._steps_until_window((moment - self._begun) // self._since)
        self._begun, self._since = moment, 0
        if not self.clock.is_capturing():
            self._read_completed()
            if len(self.waiting) < MOST_WAITING:
                self._key = id(optimizer)
                self._number = self._record_mark(STEPPED, moment, NONE_BEFORE)

    def _steps_until_window(self, step_ns: int) -> int:
        """Number of steps until the next window, for steps of this length."""
        self._turn = (self._turn + 1) % len(self._strides)
        stride = self._strides[self._turn]
        least = max(stride, stride * STEP_NS // max(step_ns, 1))
        return min(least, stride * LONG_STEP_NS // max(step_ns, 1)) | 1

    def add_mark(self, kind: int, begin: int) -> None:
        """Record a mark if a window is open."""
        if not self.open or not self._is_own_thread():
            return
        if len(self.open) >= MOST_MARKS or self._is_recorded() or self.clock.is_capturing():
            self._abandon_window()
            return
        before = self.clock.query(self.open[-1].event)
        if self._record_mark(kind, begin, int(before)) != self._number:
            self._abandon_window()  # another stream: its order says nothing about the first

    def _is_own_thread(self) -> bool:
        return threading.get_ident() == self.thread

    def _is_recorded(self) -> bool:
        """Whether a burst records all calls now: it must show the job's, not the probe's."""
        return self.events.recording_operators()

    def _record_mark(self, kind: int, begin: int, before: int) -> int:
        event = self.free.pop() if self.free else self.clock.event()
        host = clock_ns()
        number = self.clock.record(event)
        self.open.append(Mark(kind, begin, host, event, before))
        return number

    def _abandon_window(self) -> None:
        self.free += [mark.event for mark in self.open]  # reusable even before completion
        self.open = []

    def _read_completed(self) -> None:
        """Read the windows whose last mark has completed."""
        while self.waiting and self.clock.query(self.waiting[0][-1].event):
            window = self.waiting.popleft()
            first = window[0].event
            for mark in window:
                ms = 0.0 if mark.event is first else self.clock.elapsed_ms(first, mark.event)
                row = (mark.begin, mark.host, round(ms * 1e6), self.windows, mark.kind, mark.before)
                self.events.recorder.add_row("device", MARK, (*row, 0))
            self.windows += 1
            self.free += [mark.event for mark in window]
