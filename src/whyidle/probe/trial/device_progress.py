"""Measures when the device of a trial has completed each step.

The host waits for the device only twice. In between, an event is recorded after each step if the
device has events that can be timed; the events are read at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.trial_state import TrialDevice

MOST = 20_000
"""most steps with an event"""


class DeviceProgress:
    """The progress of one device. ``drained``: (step, time) of each wait for the device."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.device = TrialDevice(None, None, None)
        self.drained: list[tuple[int, int]] = []
        self.events: list[tuple[int, Any]] = []
        """(step, event); the first event is recorded at the first wait"""

    def follow_device(self, device: TrialDevice) -> None:
        """Measure this device from now on."""
        self.device, self.drained, self.events = device, [], []

    @property
    def device_index(self) -> int | None:
        """The number of the device."""
        return self.device.number

    def wait_for_device(self, count: int) -> None:
        """Wait for the device, unless work is being captured as a graph."""
        if self.device.module is None or self.device.is_capturing():
            return
        self.device.synchronize()
        self.drained.append((count, self.clock()))
        if len(self.drained) == 1:
            self.note_step(count)

    def note_step(self, count: int) -> None:
        """Record an event after the work of a step."""
        clock = self.device.clock
        if clock is None or not self.drained or len(self.events) > MOST:
            return
        if self.device.is_capturing():
            return
        event = clock.event()
        clock.record(event)
        self.events.append((count, event))

    def drained_by_step(self) -> list[tuple[int, int]]:
        """Return (step, time) of the completion of each step, as far as measured."""
        clock = self.device.clock
        if not self.events or clock is None:
            return self.drained
        (_, first), *later = self.events
        since = self.drained[0][1]
        result = dict(self.drained)
        for count, event in later:
            if not clock.query(event):
                break
            result.setdefault(count, since + round(clock.elapsed_ms(first, event) * 1e6))
        return sorted(result.items())
