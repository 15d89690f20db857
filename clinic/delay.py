"""How soon a job that falls ill is told of: its recording is cut at later and later moments, and
each piece diagnosed as the live view would have at that moment."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np

from clinic.card import Case
from clinic.outcome import Delay
from clinic.times import Times
from whyidle.errors import WhyidleError
from whyidle.model.device_timestamps import MARK
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.loader_tables import BATCH, ROW, TAKE
from whyidle.readers import probe
from whyidle.readers.probe.loader_records import read_records
from whyidle.readers.probe.samples import SAMPLE
from whyidle.record.live_state import copy_recent
from whyidle.record.recording_diagnosis import diagnose_recording

EVERY_S = 1.0
"""moments at which one would have looked"""
_CLOCKED: Final[dict[str, tuple[np.dtype[Any], str]]] = {
    "samples": (SAMPLE, "time"),
    "batches": (BATCH, "end"),
    "takes": (TAKE, "end"),
    "rows": (ROW, "time"),
    "device": (MARK, "host"),
}


def measure(case: Case, times: Times, recording: Path) -> Delay:
    """From onset to the first look at which the planted cause comes first, and stays so at the
    next. The process's facts are those of its end, as they are kept but once."""
    right = frozenset().union(*(fault.names for fault in case.inject))
    onset = times.marks[0] + float(case.options[case.onset])
    at, before = onset + EVERY_S, False
    while at < times.marks[-1] + EVERY_S:
        now = _first(recording, int(at * 1e9)) in right
        if now and before:
            at -= EVERY_S
            steps = sum(onset < mark <= at for mark in times.marks)
            return Delay(steps=steps, seconds=round(at - onset, 2))
        at, before = at + EVERY_S, now
    return Delay(steps=None, seconds=None)


def _first(recording: Path, until_ns: int) -> str:
    """The leading finding at a moment; empty where there is none."""
    with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as last:
        cut(recording, Path(whole), until_ns)
        try:
            copy_recent(Path(whole), Path(last))
            found = diagnose_recording(Path(last))
        except WhyidleError:
            return ""
        return leading(found)


def leading(found: Diagnosis) -> str:
    """The first finding that is more than a remark."""
    return next((one.cause for one in found.findings if one.severity != "info"), "")


def cut(recording: Path, into: Path, until_ns: int) -> None:
    """A recording as it was at a moment (ns of the clock that its records tell)."""
    for path in recording.iterdir():
        suffix = path.name.partition(".")[2]
        if suffix == "spans":
            spans = read_records(path, probe.SPAN, probe.MAGIC)
            kept = spans[spans["end"] <= until_ns]
            (into / path.name).write_bytes(probe.MAGIC + kept.tobytes())
        elif suffix in _CLOCKED:
            layout, clock = _CLOCKED[suffix]
            rows = np.frombuffer(_whole(path, layout.itemsize), dtype=layout)
            (into / path.name).write_bytes(rows[rows[clock] <= until_ns].tobytes())
        elif not suffix.startswith("burst-"):
            shutil.copyfile(path, into / path.name)


def _whole(path: Path, size: int) -> bytes:
    data = path.read_bytes()
    return data[: len(data) // size * size]
