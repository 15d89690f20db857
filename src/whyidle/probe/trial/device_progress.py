"""What the device of a trial has done by when: its host's marks tell when it was given to it.

It is waited for twice only. In between an event is recorded behind each step, where the device has
events that can be timed; they are read at the end, when those that count are over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.trial_state import TrialDevice

MOST = 20_000
"""steps that events are recorded behind"""


class DeviceProgress:
    """That of one device. ``drained``: after which step, and when, it had done all that it was
    given, as it was waited for."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.device = TrialDevice(None, None, None)
        self.drained: list[tuple[int, int]] = []
        self.events: list[tuple[int, Any]] = []
        """the first is recorded where it was waited for first"""

    def follow_device(self, device: TrialDevice) -> None:
        """From now on."""
        self.device, self.drained, self.events = device, [], []

    @property
    def device_index(self) -> int | None:
        """The device's number."""
        return self.device.number

    def wait_for_device(self, count: int) -> None:
        """Wait for it, unless what it is given is being recorded as a graph."""
        if self.device.module is None or self.device.is_capturing():
            return
        self.device.synchronize()
        self.drained.append((count, self.clock()))
        if len(self.drained) == 1:
            self.note_step(count)

    def note_step(self, count: int) -> None:
        """It was given a step's work."""
        clock = self.device.clock
        if clock is None or not self.drained or len(self.events) > MOST:
            return
        if self.device.is_capturing():
            return
        event = clock.event()
        clock.record(event)
        self.events.append((count, event))

    def drained_by_step(self) -> list[tuple[int, int]]:
        """After which step, and when, it had done all that it was given, as far as is known."""
        clock = self.device.clock
        if not self.events or clock is None:
            return self.drained
        (_, first), *later = self.events
        since = self.drained[0][1]
        found = dict(self.drained)
        for count, event in later:
            if not clock.query(event):
                break
            found.setdefault(count, since + round(clock.elapsed_ms(first, event) * 1e6))
        return sorted(found.items())
