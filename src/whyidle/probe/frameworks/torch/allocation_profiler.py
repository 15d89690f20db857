"""PyTorch's profiler for allocations alone, and what it recorded as rows of numbers."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any

from .activation_owners import FORWARD, UNPACK
from .looks.step_tape import NotReplayableError
from .profiler import TorchProfiler

MOST_ROWS = 400_000
"""allocations of a pass above which it is not evaluated"""


class MemoryProfiler(TorchProfiler):
    """PyTorch's profiler, for allocations."""

    def _profiler_config(self) -> tuple[Any, set[Any]]:
        from torch._C._profiler import _ExperimentalConfig

        autograd = self._torch.autograd
        own = (False, True, False, False, False)  # shapes, memory, stacks, FLOPs, modules
        config = autograd.ProfilerConfig(autograd.ProfilerState.KINETO, *own, _ExperimentalConfig())
        return config, {autograd.ProfilerActivity.CPU}


def read_allocations(
    profiler: MemoryProfiler, result: Any, path: str, device: Any
) -> dict[str, Any]:
    """Read from the profiler's result allocations as (time ns, address, bytes) and marks as (begin
    ns, end ns, kind, module)."""
    try:
        profiler.save(result, path)
        with open(path, "rb") as file:
            events = json.load(file)["traceEvents"]
    finally:
        with suppress(OSError):
            os.unlink(path)
    kind = 0 if device.type == "cpu" else 1
    rows, marks = [], []
    for event in events:
        name = event.get("name", "")
        if name == "[memory]" and (event["args"]["Device Type"] == 0) == (kind == 0):
            own = event["args"]
            rows.append([round(event["ts"] * 1000), own["Addr"], own["Bytes"]])
        elif name.startswith((FORWARD, UNPACK)) and "dur" in event:
            begin = round(event["ts"] * 1000)
            number = int(name.rpartition(" ")[2])
            end = begin + round(event["dur"] * 1000)
            marks.append([begin, end, int(name.startswith(UNPACK)), number])
    if len(rows) > MOST_ROWS:
        raise NotReplayableError(f"a step makes more than {MOST_ROWS:,} allocations")
    start = min([row[0] for row in rows] + [mark[0] for mark in marks], default=0)
    return {
        "rows": [[t - start, address, size] for t, address, size in sorted(rows, key=_time_of)],
        "marks": sorted([b - start, e - start, kind, number] for b, e, kind, number in marks),
    }


def _time_of(row: list[int]) -> int:
    return row[0]
