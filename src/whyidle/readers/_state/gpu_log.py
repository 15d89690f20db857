"""Logs of ``nvidia-smi`` with their header: ``--query-gpu=... --format=csv``, and ``dmon``."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

import numpy as np

from whyidle.errors import BrokenTraceError
from whyidle.model.state_records import GpuLog, GpuSeries

_HEADER: Final = re.compile(rb"(?m)^[^\n{}]*utilization\.gpu")
_MONITOR: Final = re.compile(rb"(?m)^#(?!.*\bpid\b).*\bgpu\b.*\bsm\b")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_TIME: Final = re.compile(r"(?:\d{4}[/-]\d\d[/-]\d\d[ T]|\d{8} +)\d\d:\d\d:\d\d(?:\.\d+)?")
_UNIT: Final = re.compile(r"\s*\[[^\]]*\]$")
_NAMES: Final = {
    "utilization.gpu": "busy", "sm": "busy", "utilization.memory": "controller",
    "mem": "controller", "memory.used": "used", "memory.total": "total", "fb": "used",
    "index": "gpu", "gpu": "gpu", "timestamp": "time", "uuid": "gpu",
    "gpu_uuid": "gpu", "pci.bus_id": "gpu", "gpu_bus_id": "gpu",
}  # fmt: skip
Row = dict[str, str]
Values = tuple[float, float, float, float]


def is_gpu_log(head: bytes) -> bool:
    """Return whether a file's first bytes are of such a log."""
    if head.lstrip().startswith((b"{", b"[", b"<")):
        return False
    return bool(_HEADER.search(head) or _MONITOR.search(head))


def read_gpu_log(path: Path, text: str) -> GpuLog:
    """Interpret a log; rows that are cut or of another kind are left out.

    Raises:
        BrokenTraceError: it holds no utilization.
    """
    series: dict[str, list[Values]] = defaultdict(list)
    times: list[float] = []
    for time, moment in _samples(_rows(text.splitlines())):
        if time is not None:
            times.append(time)
        for gpu, values in moment.items():
            series[gpu].append(values)
    gpus = tuple(
        GpuSeries(gpu, *np.array(rows, np.float64).T) for gpu, rows in sorted(series.items())
    )
    if not gpus:
        raise BrokenTraceError(
            f"{path} contains no GPU utilization.",
            why="No row has a number in the column that the header names.",
            hint="nvidia-smi --query-gpu=timestamp,index,utilization.gpu,utilization.memory,"
            "memory.used,memory.total --format=csv -l 1 > log.csv",
        )
    steps = np.diff(times)
    period = float(np.median(steps)) if len(steps) and np.median(steps) > 0 else None
    return GpuLog(str(path), gpus, period)


def _rows(lines: Iterable[str]) -> Iterator[Row]:
    """The fields of each row that matter, by what they mean."""
    by_comma, names = True, list[str]()
    for line in lines:
        plain = line.replace("\0", "").strip()
        by_comma = by_comma if plain.startswith("#") else "," in plain
        words = [w.strip() for w in plain.split(",")] if by_comma else plain.split()
        if "utilization.gpu" in plain or (plain.startswith("#") and "sm" in plain.split()):
            heads = plain.split(",") if "," in plain else plain.lstrip("# ").split()
            names = [_NAMES.get(_UNIT.sub("", w.strip()).lower(), "") for w in heads]
        elif plain.startswith(("#", "|", "+")) or not plain:  # nvidia-smi's table, before a header
            continue
        elif names and len(names) <= len(words) + (not by_comma):
            row = {name: word for name, word in zip(names, words, strict=False) if name}
            if when := _TIME.search(plain):
                row["time"] = when[0]
            yield row


def _samples(rows: Iterable[Row]) -> Iterator[tuple[float | None, dict[str, Values]]]:
    """The rows of one moment together."""
    time, gpus = None, dict[str, Values]()
    for row in rows:
        busy, *others = (_number(row.get(name)) for name in ("busy", "controller", "used", "total"))
        if np.isnan(busy):
            continue
        now = _seconds(row.get("time"))
        # the rows of one sample lie milliseconds apart, those of two samples a second or so
        beside = gpus and now and time and 0 <= now - time < 0.05
        gpu = row.get("gpu", str(len(gpus)) if beside else "0")
        if gpus and (gpu in gpus or abs((now or 0.0) - (time or 0.0)) >= 1):
            yield time, gpus
            gpus = {}
        time = now
        controller, used, total = others
        gpus[gpu] = min(100.0, busy), float(np.minimum(controller, 100.0)), used, total
    if gpus:
        yield time, gpus


def _number(word: str | None) -> float:
    match = _NUMBER.match(word or "")
    return float(match[0]) if match else np.nan


def _seconds(word: str | None) -> float | None:
    if not word or not (match := _TIME.search(word)):
        return None
    text = match[0].replace("/", "-")
    if text[:8].isdecimal():
        text = f"{text[:4]}-{text[4:6]}-{text[6:8]}T{text[8:].strip()}"
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None
