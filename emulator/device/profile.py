"""Kernels of the emulated device in PyTorch's profiles.

While PyTorch's profiler runs, launches are remembered with the times that their kernels have on the
device; when its recording is saved they are added to it as CUDA's would be: ``kernel`` and
``gpu_memcpy`` events, and the ``cuda_runtime`` calls that launched or waited, joined by their
correlation. Clocks are aligned by an annotation whose time is known on both.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from emulator.device import devices
from emulator.device.clock import now
from emulator.device.record import Blocked
from emulator.device.stream import Cost
from emulator.device.trace import CLOCK, events

CLOCK_LOOKS = 5


class Recording:
    """What happened on all devices while the profiler ran."""

    def __init__(self) -> None:
        self.kernels: list[tuple[int, int, int, int, Cost]] = []
        """device, stream, begin, end, cost with its launch"""
        self.blocked: list[Blocked] = []
        self.clock = (0, 0)
        """the shortest look at the clock: begin, end"""
        self._marks: dict[int, int] = {}
        self.lock = threading.Lock()

    def begin(self) -> None:
        """Listen; align the clocks."""
        for device in devices.started():
            self._marks[device.index] = len(device.record.blocked)
            device.record.heard = self._listener(device.index)
        looks = []
        for number in range(CLOCK_LOOKS):
            begun = now()
            with torch.profiler.record_function(f"{CLOCK} {number}"):
                pass
            looks.append((begun, now()))
        self.clock = min(looks, key=lambda look: look[1] - look[0])
        self.look = looks.index(self.clock)

    def _listener(self, device: int) -> Callable[[int, int, int, Cost], None]:
        def heard(stream: int, begin: int, end: int, cost: Cost) -> None:
            if cost.launch is not None:
                with self.lock:
                    self.kernels.append((device, stream, begin, end, cost))

        return heard

    def end(self) -> None:
        """No longer listen."""
        for device in devices.started():
            device.record.heard = None
            self.blocked += device.record.blocked[self._marks.get(device.index, 0) :]


class Result:
    """What the profiler returns, whose saving adds the device."""

    def __init__(self, result: Any, recording: Recording) -> None:
        self._result, self._recording = result, recording

    def __getattr__(self, name: str) -> Any:
        return getattr(self._result, name)

    def save(self, path: str) -> None:
        """Write the recording as PyTorch does, then with what the device did."""
        self._result.save(path)
        file = Path(path)
        trace = json.loads(file.read_text(encoding="utf-8"))
        trace["traceEvents"] = events(trace["traceEvents"], self._recording)
        trace["deviceProperties"] = [described(index) for index in range(devices.config.devices)]
        file.write_text(json.dumps(trace), encoding="utf-8")


def described(index: int) -> dict[str, Any]:
    """A device as Kineto describes one, with its peaks, which no table has."""
    config = devices.config
    half = config.peak_flops * config.half_factor
    return {
        "id": index,
        "name": config.name,
        "totalGlobalMem": config.memory_bytes,
        "computeMajor": 8,
        "computeMinor": 0,
        "peaks": {
            "fp32": config.peak_flops,
            "tf32": config.peak_flops * config.tf32_factor,
            "fp16": half,
            "bf16": half,
            "bandwidth": config.bandwidth,
        },
    }


_recordings: list[Recording] = []


def install() -> None:
    """Listen whenever the profiler runs."""
    owners: tuple[Any, ...] = (torch.autograd, torch.autograd.profiler)
    for owner in owners:
        enable, disable = owner._enable_profiler, owner._disable_profiler
        owner._enable_profiler = _enabling(enable)
        owner._disable_profiler = _disabling(disable)


def _enabling(original: Callable[..., Any]) -> Callable[..., Any]:
    def enable(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if devices.started() and not devices.bad_fork():
            recording = Recording()
            _recordings.append(recording)
            recording.begin()
        return result

    return enable


def _disabling(original: Callable[..., Any]) -> Callable[..., Any]:
    def disable() -> Any:
        result = original()
        if not _recordings:
            return result
        recording = _recordings.pop()
        recording.end()
        return Result(result, recording)

    return disable
