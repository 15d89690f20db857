"""Telemetry of this device, kept as recordings that can be replayed without it."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.gpu.job_run import find_recording
from bench.gpu.stage import Item, SkippedError, Stage
from bench.gpu.stages.doctor import read_nvml
from bench.gpu.target import Target
from bench.gpu.twins import find_twin, run_twin
from whyidle.model.live.telemetry_lines import read_telemetry

JOB = "loader-without-workers"
"""the device is busy and idle in turn"""
MOST_BYTES = 900_000
READS = 20
START_S = 9.0
SOURCES = ("nvml", "emulator.source")
KEPT_FACTS = ("driver", "name@", "cuda_ordinal@", "cuda_order_doubt")
"""no serial numbers: recordings are published"""


def record_job(target: Target, folder: Path) -> Path:
    """Telemetry of a job, as ``whyidle run`` records it."""
    run_twin(
        target,
        find_twin(JOB),
        profile="off",
        environment=target.counters,
        store=folder / "store",
    )
    return find_recording(folder / "store") / "telemetry.jsonl"


def record_idle(target: Target, folder: Path) -> Path:
    """A device with nothing to do, read without a job; imitated where there is none."""
    file = folder / "telemetry.jsonl"
    read_nvml(target, file, READS)
    return file


def keep_recording(
    target: Target, name: str, record: Callable[[Target, Path], Path]
) -> dict[str, Any]:
    """Record, trim, keep under the folder of the results, and replay what was kept.

    Raises:
        SkippedError: whyidle has no source for this device here.
    """
    if not target.emulated and importlib.util.find_spec("pynvml") is None:
        raise SkippedError("the package nvidia-ml-py is not installed")
    with tempfile.TemporaryDirectory(prefix="whyidle-gpu-") as folder:
        text = record(target, Path(folder)).read_bytes()
    target.out.mkdir(parents=True, exist_ok=True)
    slug = re.sub(r"[^a-z0-9]+", "-", target.name.lower()).strip("-")
    path = target.out / f"telemetry-{slug}-{name}.jsonl.gz"
    path.write_bytes(gzip.compress(trim_recording(text), mtime=0))
    return {"file": path.name, "bytes": path.stat().st_size, **describe_recording(path)}


def trim_recording(text: bytes, most: int = MOST_BYTES) -> bytes:
    """The lines of the device's source alone, without what identifies the device, up to a size."""
    kept: list[bytes] = []
    size, numbers = 0, set()
    for line in text.splitlines(keepends=True):
        row = json.loads(line)
        if isinstance(row, list):
            wanted = line if row[0] in numbers else b""
        elif "source" not in row:
            wanted = line
        elif row["source"] not in SOURCES:
            continue
        elif "columns" in row:
            numbers.add(row["columns"])
            wanted = line
        else:
            facts = {key: row["facts"][key] for key in row["facts"] if key.startswith(KEPT_FACTS)}
            wanted = json.dumps({**row, "facts": facts}, separators=(",", ":")).encode() + b"\n"
        size += len(wanted)
        if size > most:
            break
        kept.append(wanted)
    return b"".join(kept)


def describe_recording(path: Path) -> dict[str, Any]:
    """What a recording holds: moments, and every signal's mean."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
        telemetry = read_telemetry(lines)
    series = telemetry.series
    moments = {int(moment) for part in series.values() for moment in part.time_ns}
    return {
        "moments": len(moments),
        "span_s": (max(moments) - min(moments)) / 1e9 if moments else 0.0,
        "lost_lines": telemetry.lost,
        "missing": {name: absent.reason for name, absent in telemetry.missing.items()},
        "means": {
            re.sub(r"\.pid\d+", ".pid", key): float(part.value.mean())
            for key, part in sorted(series.items())
        },
    }


def list_items(target: Target) -> list[Item]:
    """A job, and the device alone."""
    return [
        Item("job", partial(keep_recording, target, "job", record_job), target.job_s + START_S),
        Item("idle", partial(keep_recording, target, "idle", record_idle), START_S),
    ]


SHOWN = (
    "busy_ratio",
    "sm_active_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "power_w",
    "clock_sm_mhz",
)


def table_lines(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """A row per recording."""
    yield "Means of what a replay of each kept recording gives. `idle` has no job on the device."
    yield ""
    yield f"| recording | bytes | moments | lost lines | signals | {' | '.join(SHOWN)} |"
    yield f"|---|--:|--:|--:|--:|{'--:|' * len(SHOWN)}"
    for result in results.values():
        means = [_first_mean(result["means"], signal) for signal in SHOWN]
        cells = " | ".join("–" if mean is None else f"{mean:.3g}" for mean in means)
        yield (
            f"| {result['file']} | {result['bytes']} | {result['moments']} "
            f"| {result['lost_lines']} | {len(result['means'])} | {cells} |"
        )


def _first_mean(means: dict[str, float], signal: str) -> float | None:
    return next((mean for key, mean in means.items() if key.startswith(f"{signal}@")), None)


STAGE = Stage("telemetry", "Recordings of the device's telemetry", list_items, table_lines)
