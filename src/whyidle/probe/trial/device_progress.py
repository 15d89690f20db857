"""What the device of a trial has done by when: its host's marks tell when it was given to it.

It is waited for twice only. In between an event is recorded behind each step, where the device has
events that can be timed; they are read at the end, when those that count are over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..frameworks.torch import accelerator
from ..frameworks.torch.device_marks import stream_of

MOST = 20_000
"""steps that events are recorded behind"""


class Done:
    """The device that an optimizer's parameters are on. ``drained``: after which step, and when,
    it had done all that it was given, as it was waited for."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.module: Any = None
        """what PyTorch knows of it; None on a CPU"""
        self.index: int | None = None
        self.stream: Any = None
        self.drained: list[tuple[int, int]] = []
        self.events: list[tuple[int, Any]] = []
        """the first is recorded where it was waited for first"""

    def of(self, optimizer: Any) -> None:
        """Find it."""
        import torch

        kind = accelerator.kind(torch, optimizer)
        self.drained, self.events, self.stream = [], [], None
        self.index = accelerator.index(optimizer, kind)
        self.module = accelerator.module(torch, kind)
        if self.module is not None:
            self.stream = stream_of(torch, {"device": kind, "device_index": self.index})

    def drain(self, count: int) -> None:
        """Wait for it, unless what it is given is being recorded as a graph."""
        if self.module is None or self._capturing():
            return
        self.module.synchronize(*self._place())
        self.drained.append((count, self.clock()))
        if len(self.drained) == 1:
            self.stepped(count)

    def stepped(self, count: int) -> None:
        """It was given a step's work."""
        if self.stream is None or not self.drained or len(self.events) > MOST:
            return
        if self._capturing():
            return
        event = self.stream.event()
        self.stream.record(event)
        self.events.append((count, event))

    def told(self) -> list[tuple[int, int]]:
        """After which step, and when, it had done all that it was given, as far as is known."""
        if not self.events:
            return self.drained
        (_, first), *later = self.events
        since = self.drained[0][1]
        found = dict(self.drained)
        for count, event in later:
            if not self.stream.query(event):
                break
            found.setdefault(count, since + round(self.stream.elapsed_ms(first, event) * 1e6))
        return sorted(found.items())

    def _capturing(self) -> bool:
        return bool(getattr(self.module, "is_current_stream_capturing", bool)())

    def _place(self) -> tuple[int, ...]:
        """Which of several devices, where the module takes that."""
        several = hasattr(self.module, "current_device")
        return (self.index,) if several and self.index is not None else ()
