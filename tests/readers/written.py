"""Small traces as the profiler writes them, for the tests of this folder."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from whyidle.errors import WhyidleError
from whyidle.model.timeline import Timeline
from whyidle.readers import kineto

START_US = 1_700_000_000_000_000
REAL = Path(os.environ.get("WHYIDLE_TRACES") or Path(__file__).parents[2].parent / "shared/traces")


def event(
    cat: str = "cpu_op", name: str = "aten::add", ts: Any = 0, dur: Any = 5, **more: Any
) -> dict:
    return {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": 7, "ts": ts, "dur": dur, **more}


def kernel(ts: Any = 20, corr: int = 1, name: str = "gemm", **args: Any) -> dict:
    args = {"device": 0, "stream": 7, "correlation": corr, **args}
    return event("kernel", name, ts, 50, args=args)


def launch(ts: Any = 10, corr: int = 1) -> dict:
    return event("cuda_runtime", "cudaLaunchKernel", ts, 3, args={"correlation": corr})


def flow(ts: Any = 10, corr: int = 1) -> dict:
    return {"ph": "s", "id": corr, "pid": 7, "tid": 7, "ts": ts, "cat": "ac2g", "name": "ac2g"}


def steps(count: int) -> list[dict]:
    listed: list[dict] = [{"name": "process_name", "ph": "M", "ts": START_US, "pid": 7, "tid": 0}]
    for i in range(count):
        at = START_US + 100 * i
        dims = {"Input Dims": [[i % 5, 3], []], "Input type": ["float", ""]}
        listed += [
            event(ts=at, dur=40, args=dims),
            launch(at + 10, i),
            flow(at + 10, i),
            kernel(at + 20, i),
        ]
    return listed


def document(events: list[dict], **header: Any) -> dict:
    return {"schemaVersion": 1, **header, "traceEvents": events, "traceName": "x.json"}


def write(path: Path, content: Any, *, indent: int | None = 1) -> Path:
    data = content if isinstance(content, bytes) else json.dumps(content, indent=indent).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def load_text(tmp_path: Path, content: Any, name: str = "t.json", **options: Any) -> Timeline:
    return kineto.load(write(tmp_path / name, content, **options))


def outcome(path: Path) -> Timeline | WhyidleError:
    """The timeline, checked, or the clear error."""
    try:
        timeline = kineto.load(path)
    except WhyidleError as error:
        found = error
    else:
        check(timeline)
        return timeline
    assert all((found.what, found.why, found.hint))
    return found


def check(timeline: Timeline) -> None:
    """What every consumer relies on."""
    for events in (timeline.host, timeline.device):
        assert (np.diff(events.start) >= 0).all()
        assert (events.end >= events.start).all()
        assert (events.start >= 0).all()
        assert {len(getattr(events, column)) for column in events.__slots__} == {len(events)}
        within(events.name, len(timeline.names), 0)
        within(events.detail, len(timeline.details), -1)
    within(timeline.host.thread, len(timeline.threads), 0)
    assert (np.diff(timeline.memory.time) >= 0).all()
    assert all(isinstance(name, str) for name in timeline.names)
    assert timeline.source.events >= len(timeline.host) + len(timeline.device) > 0
    assert timeline.base_ns >= 0
    assert timeline.available_signals() is not None


def within(column: np.ndarray, size: int, least: int) -> None:
    if len(column):
        assert column.min() >= least
        assert column.max() < size
