"""The timeline of a watched command without training steps.

It spans the whole run and holds telemetry, and the stack samples of a process that imported the
framework if there was one. No time is attributed to buckets.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from whyidle import catalog
from whyidle.diagnosis.process_reading import read_process
from whyidle.errors import BrokenTraceError
from whyidle.model.cause import MOSTLY
from whyidle.model.live.telemetry import Telemetry
from whyidle.model.process_facts import Stepless
from whyidle.model.timeline import HostEvents, HostKind, Timeline
from whyidle.readers import probe
from whyidle.readers.probe.loader_records import read_document
from whyidle.readers.probe.process_facts import read_facts

SPAN = "whyidle::command"
OWN_MARKS = "if the loop does not use the framework's optimizers, call whyidle.step() once per step"
WATCHED = "PyTorch, TensorFlow or JAX"
"""the frameworks with a probe"""
DEAF_NOTE = (
    "the probe is not loaded if Python runs with -S, -I or -E, or if the command replaces "
    "PYTHONPATH instead of extending it"
)
EARLY_S = 1.0  # a command that failed within this time probably failed before its imports
_DEAF = re.compile(r"-[a-zA-Z]*[SIE][a-zA-Z]*")
_PYTHON = re.compile(r"(^|/)python[\d.]*$")


def whole_run(
    recording: Path, report: Mapping[str, Any], outside: Telemetry | None, faults: Sequence[str]
) -> Timeline | None:
    """The command as one window without steps; None if nothing was recorded. ``report`` is the
    content of ``ended.json``, ``outside`` the monitor's telemetry, ``faults`` errors inside its
    processes."""
    lead = _lead_process(recording)
    window = _process_life(lead) if lead is not None else _monitored_span(outside, report)
    if window is None:
        return None
    status = report.get("exit_status")
    took = report.get("duration_s")
    why = explain_no_steps(lead, report.get("command") or [], faults, status, took)
    early = lead is None and bool(status) and took is not None and took < EARLY_S
    timeline = _span_timeline(lead or probe.blank_timeline(recording), *window)
    stepless = Stepless(
        why, failed_early=early, aside=lead is not None and _was_secondary(lead, took)
    )
    return replace(timeline, stepless=stepless, telemetry=outside)


def explain_no_steps(
    lead: Timeline | None,
    command: Sequence[str],
    faults: Sequence[str],
    status: int | None = None,
    took_s: float | None = None,
) -> str:
    """Explain why there is no step; completes "No training step was seen: ..."."""
    if lead is not None:
        low, high = _process_life(lead)
        if died := lead.process.failure:
            return f"{_process_name(lead)} ended by {died}"
        rest = f"; other processes of the {took_s or 0.0:.3g} s run did not load the probe"
        framework = catalog.framework_title(probe.framework_of(lead.process)[0])
        return (
            f"{_process_name(lead)} ran {framework} {lead.process.version or ''} for "
            f"{(high - low) / 1e9:.3g} s without an optimizer "
            f"step{rest * _was_secondary(lead, took_s)}"
        )
    if faults:
        return faults[0][:1].lower() + faults[0][1:].rstrip(".")
    flags = takewhile(lambda word: word.startswith("-"), command[1:])
    deaf = next((flag for flag in flags if _DEAF.fullmatch(flag)), None)
    if deaf is not None and _PYTHON.search(command[0]):
        return f"Python was started with {deaf}, which prevents loading the probe"
    if status:
        return f"the command ended with status {status} and did not import {WATCHED}"
    return f"no process of the command imported {WATCHED}"


def advise_no_steps(lead: Timeline, faults: Sequence[str] = ()) -> list[str]:
    """Advise how to get steps recorded."""
    if lead.process.failure:
        return []  # the command itself failed
    if lead.stepless and lead.stepless.aside:
        return [DEAF_NOTE]
    if lead.process.imported is not None:
        return [OWN_MARKS]
    if faults or (lead.stepless and lead.stepless.failed_early):
        return []  # the probe was loaded, or the command itself failed
    return [DEAF_NOTE]


def _was_secondary(lead: Timeline, took_s: float | None) -> bool:
    low, high = _process_life(lead)
    return took_s is not None and (high - low) / 1e9 < MOSTLY * took_s


def _lead_process(recording: Path) -> Timeline | None:
    timelines = (
        _read_process(recording / f"{pid}.spans") for pid in probe.untrained_processes(recording)
    )
    readable = [one for one in timelines if one is not None]
    return max(readable, key=lambda one: np.subtract(*_process_life(one)[::-1]), default=None)


def _read_process(path: Path) -> Timeline | None:
    try:
        return read_process(path)
    except BrokenTraceError:  # it ended before the first sample
        document = read_document(path.with_suffix(".seen.json"))
        return (
            replace(probe.blank_timeline(path), process=read_facts(document)) if document else None
        )


def _process_name(timeline: Timeline) -> str:
    word = next(iter(timeline.process.argv), "")
    return f"python {word}".strip() if word.startswith("-") or not word else shlex.quote(word)


def _process_life(timeline: Timeline) -> tuple[int, int]:
    begin = timeline.process.imported or timeline.base_ns
    last = timeline.base_ns + int(timeline.host.end.max(initial=0))
    return begin, max(timeline.process.ended or last, begin + 1)


def _monitored_span(outside: Telemetry | None, report: Mapping[str, Any]) -> tuple[int, int] | None:
    times = [series.time_ns for series in outside.series.values()] if outside else []
    ends = [int(time[at]) for time in times if len(time) for at in (0, -1)]
    if ends and max(ends) > min(ends):
        return min(ends), max(ends)
    took = report.get("duration_s")
    begin = min(ends, default=0)
    return (begin, begin + max(1, int(took * 1e9))) if took is not None else None


def _span_timeline(timeline: Timeline, low: int, high: int) -> Timeline:
    """Add a span over the whole window, and shift times to its beginning."""
    host, shift = timeline.host, timeline.base_ns - low
    host = replace(host, start=host.start + shift, end=host.end + shift)
    kept = host.take_rows((host.end > 0) & (host.start < high - low))
    begin, end, name = np.array([[0], [high - low], [len(timeline.names)]])
    mark = HostEvents.from_columns(begin, end, kind=HostKind.ANNOTATION, name=name, thread=0)
    return replace(
        timeline,
        names=(*timeline.names, SPAN),
        threads=timeline.threads or ("0",),
        host=kept.join(mark),
        base_ns=low,
    )
