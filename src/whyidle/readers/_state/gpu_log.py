"""Logs of ``nvidia-smi``: ``--query-gpu=... --format=csv``, ``dmon`` and ``pmon``, repeated or not,
with their header or, where units, usual columns or values tell what a number is, without it."""

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
_MONITOR: Final = re.compile(rb"(?m)^#.*\bgpu\b.*\bsm\b")
_BARE: Final = re.compile(rb"(?m)\A(?:[^\n%{}]*,)?\s*\d{1,3} %\s*,[^\n]*\n")
_BARE_MONITOR: Final = re.compile(rb"\A(?:\s+(?:\d+|-)){10}(?:(?:\s+(?:\d+|-)){2})?\s*\n")
_PLAIN: Final = re.compile(
    rb"\A\s*(?=[^\n]*(?:\d{4}(?:/\d\d){2} [\d:]{8}\.\d{3}\b|GPU-[0-9a-f]{8}-))"
    rb"(?:[^\n,%{}]+,)+[^\n,%{}]+\n"
)
"""nvidia-smi's own form of time or of a GPU's name, among numbers without units"""
_SLOW, _DEGREES = (15, 95), 3
"""degrees, or percent of a fan: where they are, and how fast they move from sample to sample"""
_DMON: Final = ("gpu", "pwr", "gtemp", "mtemp", "sm", "mem", "enc", "dec")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_TIME: Final = re.compile(r"(?:\d{4}[/-]\d\d[/-]\d\d[ T]|\d{8} +)\d\d:\d\d:\d\d(?:\.\d+)?")
_SIZE: Final = re.compile(r"(\d{1,9}) MiB")
_UNIT: Final = re.compile(r"\s*\[[^\]]*\]$")
_NAMES: Final = {
    "utilization.gpu": "busy", "sm": "busy", "utilization.memory": "controller",
    "mem": "controller", "memory.used": "used", "memory.total": "total", "fb": "used",
    "index": "gpu", "gpu": "gpu", "timestamp": "time", "pid": "process", "uuid": "gpu",
    "gpu_uuid": "gpu", "pci.bus_id": "gpu", "gpu_bus_id": "gpu",
}  # fmt: skip
Row = dict[str, str]
Values = tuple[float, float, float, float]


def is_gpu_log(head: bytes) -> bool:
    """Return whether a file's first bytes are of such a log."""
    if head.lstrip().startswith((b"{", b"[", b"<")):
        return False
    return any(form.search(head) for form in (_HEADER, _MONITOR, _BARE, _PLAIN, _BARE_MONITOR))


def read_gpu_log(path: Path, text: str) -> GpuLog:
    """Interpret a log; rows that are cut or of another kind are left out.

    Raises:
        BrokenTraceError: it holds no utilization.
    """
    series: dict[str, list[Values]] = defaultdict(list)
    times: list[float] = []
    lines = text.splitlines()
    names = _guess_columns(lines) if _PLAIN.match(text.encode()) else []
    for time, moment in _samples(_rows(lines, names)):
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


def _rows(lines: Iterable[str], names: list[str]) -> Iterator[Row]:
    """The fields of each row that matter, by what they mean; ``names`` hold without a header."""
    by_comma = True
    for line in lines:
        plain = line.replace("\0", "").strip()
        by_comma = by_comma if plain.startswith("#") else "," in plain
        words = [w.strip() for w in plain.split(",")] if by_comma else plain.split()
        if "utilization.gpu" in plain or (plain.startswith("#") and "sm" in plain.split()):
            heads = plain.split(",") if "," in plain else plain.lstrip("# ").split()
            names = [_NAMES.get(_UNIT.sub("", w.strip()).lower(), "") for w in heads]
        elif plain.startswith(("#", "|", "+")) or not plain:  # nvidia-smi's table, before a header
            continue
        else:
            now = names or _guess_names(words, by_comma=by_comma)
            if len(now) <= len(words) + (not by_comma):
                row = {name: word for name, word in zip(now, words, strict=False) if name}
                if when := _TIME.search(plain):
                    row["time"] = when[0]
                yield row


def _guess_columns(lines: list[str]) -> list[str]:
    """What the fields of rows without units mean, by their values: rates lie from 0 to 100, and
    change, or are at an end. Temperatures and fans move by degrees and are never near 0; one
    before a single rate may be the rate itself, and then nothing is told. Two columns of larger
    numbers are memory; among more there are clocks."""
    rows = [[word.strip() for word in line.split(",")] for line in lines]
    rows = [row for row in rows if len(row) == len(rows[0])]
    names, rates, sizes = [""] * len(rows[0]), list[int](), list[tuple[int, int]]()
    gpus, slow = 1, len(names)
    for i, column in enumerate(zip(*rows, strict=True)):
        values = np.array(
            [int(word) if word.isdecimal() and len(word) < 10 else -1 for word in column]
        )
        known, moves = values[values >= 0], np.abs(values[gpus:] - values[:-gpus])  # of each GPU
        span = int(known.min(initial=1 << 60)), int(known.max(initial=-1))
        if column[0].startswith("GPU-") or (
            "gpu" not in names and span[1] <= 100 and set(values) == {*range(span[1] + 1)}
        ):
            names[i], gpus = "gpu", len(set(column))
        elif not len(known):
            continue
        elif span[1] > 100:
            sizes.append((span[1], i))
        elif _SLOW[0] < span[0] and span[1] < _SLOW[1] and moves.max(initial=0) <= _DEGREES:
            slow = min(slow, i)
        elif span[0] < span[1] or span[0] in (0, 100):
            rates.append(i)
    if len(rates) == 2 or (len(rates) == 1 and rates[0] < slow):
        names[rates[0]], names[rates[-1]] = "busy", "controller" if len(rates) == 2 else "busy"
    if len(sizes) == 2:
        (_, used), (_, total) = sorted(sizes)
        names[used], names[total] = "used", "total"
    return names


def _guess_names(words: list[str], *, by_comma: bool) -> list[str]:
    """What the fields of a row mean by their units, or as those of ``dmon``."""
    if not by_comma:
        return [_NAMES.get(name, "") for name in _DMON]
    names, rates = [], ["busy", "controller"]
    found = [(_SIZE.fullmatch(word), i) for i, word in enumerate(words)]
    sizes = sorted((int(match[1]), i) for match, i in found if match)
    for word in words:
        names.append(rates.pop(0) if word.endswith(" %") and rates else "")
        if word.isdecimal() and "gpu" not in names:
            names[-1] = "gpu"
    if len(sizes) > 1:  # the largest is the total, also where free memory is listed
        names[sizes[-1][1]] = "total"
    if sizes:
        names[min(i for _, i in sizes if not names[i])] = "used"
    return names


def _samples(rows: Iterable[Row]) -> Iterator[tuple[float | None, dict[str, Values]]]:
    """The rows of one moment together: a log of processes has several for a GPU, whose
    utilizations add up."""
    time, gpus = None, dict[str, Values]()
    seen = set[tuple[str, str]]()
    for row in rows:
        values = tuple(_number(row.get(name)) for name in ("busy", "controller", "used", "total"))
        now, process = _seconds(row.get("time")), row.get("process", "")
        if np.isnan(values[0]) and process != "-":
            continue
        # the rows of one sample lie milliseconds apart, those of two samples a second or so
        beside = gpus and now and time and 0 <= now - time < 0.05
        gpu = row.get("gpu", str(len(gpus)) if beside else "0")
        if gpus and ((gpu, process) in seen or abs((now or 0.0) - (time or 0.0)) >= 1):
            yield time, gpus
            gpus, seen = {}, set()
        time = now
        seen.add((gpu, process))
        before = gpus.get(gpu, (0.0, 0.0, values[2], values[3]))
        busy, controller = (
            min(100.0, old + (0.0 if np.isnan(new) else new))
            for old, new in zip(before[:2], values[:2], strict=True)
        )
        gpus[gpu] = busy, controller if not np.isnan(values[1]) else np.nan, *before[2:]
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
