"""Clocks of the devices that PyTorch can train on, for ``core.device_marks``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.device_timestamps import DeviceClock
from ...core.events import Events
from ...wire import ProcessFacts
from . import accelerator


class CudaClock:
    """The ``DeviceClock`` of a CUDA device's current stream."""

    def __init__(self, cuda: Any, index: int) -> None:
        self.cuda, self.index = cuda, index
        self.captures = 0
        """number of running captures that PyTorch knows of, on any thread"""

    def event(self) -> Any:
        """See ``DeviceClock``; the CUDA event is created at its first recording."""
        return self.cuda.Event(enable_timing=True)

    def record(self, event: Any) -> int:
        """See ``DeviceClock``."""
        stream = self.cuda.current_stream(self.index)
        event.record(stream)
        return int(stream.cuda_stream)

    def query(self, event: Any) -> bool:
        """See ``DeviceClock``."""
        return bool(event.query())

    def elapsed_ms(self, first: Any, last: Any) -> float:
        """See ``DeviceClock``; precise to half a microsecond and seven digits."""
        return float(first.elapsed_time(last))

    def is_capturing(self) -> bool:
        """See ``DeviceClock``."""
        return self.captures > 0 or bool(self.cuda.is_current_stream_capturing())

    def watch_captures(self, events: Events) -> None:
        """Count captures on any thread."""
        graph = getattr(self.cuda, "CUDAGraph", None)
        if hasattr(graph, "capture_begin"):
            events.patch_function(
                "device capture", graph, "capture_begin", self._wrap_capture_begin
            )
            events.patch_function(
                "device capture end", graph, "capture_end", self._wrap_capture_end
            )

    def _wrap_capture_begin(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self.captures += 1
            try:
                return original(*args, **kwargs)
            except BaseException:
                self.captures -= 1
                raise

        return wrapper

    def _wrap_capture_end(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            try:
                return original(*args, **kwargs)
            finally:
                self.captures = max(0, self.captures - 1)

        return wrapper


def find_clock(torch: Any, facts: ProcessFacts) -> DeviceClock | None:
    """Return the clock of the device that a process trains on; None if it has no timed events."""
    if facts.get("device") != accelerator.CUDA:
        return accelerator.accelerator_clock(torch, facts)
    cuda, index = torch.cuda, facts.get("device_index")
    if not (cuda.is_initialized() and cuda.is_available()):
        return None
    return CudaClock(cuda, cuda.current_device() if index is None else int(index))
