"""Events of a Kineto trace for what an emulated device did."""

from __future__ import annotations

import os
from typing import Any, Protocol

from emulator.device.record import Blocked
from emulator.device.stream import COMMUNICATION, COPY_IN, COPY_OUT, Cost

CLOCK = "emulated clock"
OURS = (CLOCK, "PythonSubclass")
"""marks for the clock, and the call in which operators reach the device"""
FIRST_STREAM = 7
CALLS = {
    "synchronize": "cudaDeviceSynchronize",
    "event synchronize": "cudaEventSynchronize",
    "segment": "cudaMalloc",
    "allocation retried": "cudaFree",
    "empty_cache": "cudaFree",
}
"""why the host was blocked -> the call in which CUDA's would be; else that of a stream"""
LAUNCHING = ("queue full",)
"""reasons that are part of a launch"""
FILLING = 4
"""a kernel whose work takes this many times what every kernel takes fills the device"""


class Heard(Protocol):
    """What was heard of devices and host while the profiler ran."""

    kernels: list[tuple[int, int, int, int, Cost]]
    blocked: list[Blocked]
    clock: tuple[int, int]
    look: int


def events(recorded: list[dict[str, Any]], heard: Heard) -> list[dict[str, Any]]:
    """All events of the trace: those recorded, without our marks, and those of the device."""
    mark = next((e for e in recorded if e.get("name") == f"{CLOCK} {heard.look}"), None)
    kept = [e for e in recorded if not str(e.get("name", "")).startswith(OURS)]
    if mark is None:
        return kept
    middle = float(mark["ts"]) + float(mark.get("dur", 0.0)) / 2
    origin_ns = (heard.clock[0] + heard.clock[1]) / 2 - middle * 1e3
    for each in heard.kernels:
        kept += _kernel(origin_ns, each)
    calls = [each for each in heard.blocked if each.why not in LAUNCHING]
    return kept + [_blocked(origin_ns, each) for each in calls]


def _span(origin_ns: float, begin: int, end: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "ts": round((begin - origin_ns) / 1e3, 3),
        "dur": round((end - begin) / 1e3, 3),
    }


def _kernel(origin_ns: float, heard: tuple[int, int, int, int, Cost]) -> list[dict[str, Any]]:
    """A kernel or copy, and the call that launched it."""
    device, stream, begin, end, cost = heard
    launch = cost.launch
    assert launch is not None
    copied = cost.kind in (COPY_IN, COPY_OUT)
    args: dict[str, Any] = {
        "device": device,
        "context": 1,
        "stream": FIRST_STREAM + stream,
        "correlation": launch.number,
    }
    if copied:
        args["bytes"] = cost.bytes_
    elif cost.kind == COMMUNICATION:
        args |= launch.told
    else:
        args["est. achieved occupancy %"] = _occupancy(cost)
    call = "cudaMemcpyAsync" if copied else "cudaLaunchKernel"
    return [
        {
            **_span(origin_ns, begin, end),
            "cat": "gpu_memcpy" if copied else "kernel",
            "name": launch.name,
            "pid": device,
            "tid": FIRST_STREAM + stream,
            "args": args,
        },
        {
            **_span(origin_ns, launch.begin, launch.end),
            "cat": "cuda_runtime",
            "name": call,
            "pid": os.getpid(),
            "tid": launch.thread,
            "args": {"correlation": launch.number},
        },
    ]


def _occupancy(cost: Cost) -> int:
    """Small kernels leave most of the device idle."""
    fixed = max(cost.ns - cost.active_ns, 1)
    return min(100, max(1, round(100 * cost.active_ns / (FILLING * fixed))))


def _blocked(origin_ns: float, each: Blocked) -> dict[str, Any]:
    return {
        **_span(origin_ns, each.begin, each.end),
        "cat": "cuda_runtime",
        "name": CALLS.get(each.why, "cudaStreamSynchronize"),
        "pid": os.getpid(),
        "tid": each.thread,
        "args": {},
    }
