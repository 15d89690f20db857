"""What a PyTorch profiler trace says by itself, read without whyidle: CUPTI's intervals, united."""

from __future__ import annotations

import json
import statistics
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

Span = tuple[float, float]
"""begin and end, us as in the trace"""
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver")
BATCH = "enumerate(DataLoader)"
STEP = "ProfilerStep#"


def unite_spans(spans: Iterable[Span]) -> list[Span]:
    """The union, in order."""
    united: list[Span] = []
    for begin, end in sorted(spans):
        if united and begin <= united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((begin, end))
    return united


def clip_spans(spans: Iterable[Span], begin: float, end: float) -> list[Span]:
    """What of some spans lies between two moments."""
    return [(max(a, begin), min(b, end)) for a, b in spans if a < end and b > begin]


def total_length(spans: Iterable[Span]) -> float:
    """The sum of the lengths, us."""
    return sum(end - begin for begin, end in spans)


@dataclass(frozen=True)
class RawTrace:
    """Intervals of one trace. ``offset_ns`` is the host's clock minus the trace's."""

    kernels: list[Span]
    """the union of the intervals in which a kernel ran"""
    busy: list[Span]
    """the union of those in which a kernel, a copy or a memset ran"""
    batches: list[Span]
    """calls for a batch"""
    steps: int
    offset_ns: float
    launched: list[float]
    """when each piece of work on the busiest stream was given to the device, in order"""
    done: list[float]
    """when everything given until then was done"""

    @classmethod
    def read(cls, path: Path) -> RawTrace:
        """Read a trace and the clock that the job wrote beside it.

        Raises:
            ValueError: it holds no work of a device, or no steps.
        """
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
        events = [event for event in events if event.get("ph") == "X" and "dur" in event]
        clock = json.loads(path.with_name(f"{path.name}.clock").read_text(encoding="utf-8"))
        work = [event for event in events if event.get("cat") in ON_DEVICE]
        marks = [event for event in events if event.get("cat") == "user_annotation"]
        steps = {
            int(event["name"].removeprefix(STEP)): float(event["ts"])
            for event in marks
            if event["name"].startswith(STEP)
        }
        if not work or not steps:
            raise ValueError(f"the trace holds {len(work)} pieces of work in {len(steps)} steps")
        offsets = [
            begin_ns - steps[number] * 1e3
            for number, begin_ns in enumerate(clock["begins_ns"])
            if number in steps
        ]
        launched, done = _queue_times(events, work)
        return cls(
            kernels=unite_spans(_span(event) for event in work if event["cat"] == "kernel"),
            busy=unite_spans(map(_span, work)),
            batches=unite_spans(_span(event) for event in marks if event["name"].startswith(BATCH)),
            steps=len(steps),
            offset_ns=statistics.median(offsets),
            launched=launched,
            done=done,
        )

    def to_trace_us(self, host_ns: Any) -> Any:
        """Moments of the host's clock, a number or an array, in the trace."""
        return (host_ns - self.offset_ns) / 1e3

    def event_moment(self, host_us: float) -> float:
        """When the device comes to an event that the host gave it at this moment."""
        before = bisect_left(self.launched, host_us)
        return max(host_us, self.done[before - 1]) if before else host_us

    def late_length(self, begin: float, end: float) -> float:
        """How long the device did nothing while the host asked for a batch, us."""
        calls = clip_spans(self.batches, begin, end)
        worked = sum(total_length(clip_spans(self.busy, *call)) for call in calls)
        return total_length(calls) - worked


def _span(event: dict[str, Any]) -> Span:
    begin = float(event["ts"])
    return begin, begin + float(event["dur"])


def _queue_times(
    events: list[dict[str, Any]], work: list[dict[str, Any]]
) -> tuple[list[float], list[float]]:
    """Of the busiest stream: when work was given to it, and when all until then was done."""
    calls = {
        event["args"]["correlation"]: float(event["ts"])
        for event in events
        if event.get("cat") in CALLS and "correlation" in event.get("args", {})
    }
    streams = Counter(event["args"].get("stream") for event in work)
    stream = streams.most_common(1)[0][0]
    rows = sorted(
        (calls.get(event["args"].get("correlation"), float(event["ts"])), _span(event)[1])
        for event in work
        if event["args"].get("stream") == stream
    )
    return [given for given, _ in rows], list(accumulate((end for _, end in rows), max))
