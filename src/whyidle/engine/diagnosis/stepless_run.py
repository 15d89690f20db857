"""A watched command in which no training step was seen, as a timeline: its whole life.

It holds what the system told of it (telemetry), and the stack samples of a process that had the
framework and did not train, where there was one. Nothing in it is given to a bucket: without steps
there is no work to compare with.
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

from whyidle.engine.process_reading import read_process
from whyidle.errors import BrokenTraceError
from whyidle.importers import probe
from whyidle.importers._loader_records import read_document
from whyidle.importers._process_facts import read_facts
from whyidle.model.process_facts import Stepless
from whyidle.model.telemetry import Telemetry
from whyidle.model.timeline import HostEvents, HostKind, Timeline

SPAN = "whyidle::command"
OWN_MARKS = "where the loop takes its steps in a way of its own, mark them: whyidle.step()"
DEAF_NOTE = (
    "Python does not load what wakes the probe with -S, -I or -E, nor where the command sets "
    "PYTHONPATH anew instead of adding to it"
)
SHARE = 0.5
"""of the command's time: a process that lived for less hardly was its training"""
EARLY_S = 1.0
"""a command that failed sooner hardly came to import PyTorch, wherever it would have"""
_DEAF = re.compile(r"-[a-zA-Z]*[SIE][a-zA-Z]*")
_PYTHON = re.compile(r"(^|/)python[\d.]*$")


def whole_run(
    recording: Path, told: Mapping[str, Any], outside: Telemetry | None, faults: Sequence[str]
) -> Timeline | None:
    """The command as one window without steps; None where nothing at all was left.

    Args:
        recording: the folder that was recorded into.
        told: how the command was begun and ended.
        outside: what the monitor read.
        faults: what failed inside the command's processes.
    """
    lead = _lead_process(recording)
    window = _process_life(lead) if lead is not None else _monitored_span(outside, told)
    if window is None:
        return None
    status = told.get("exit_status")
    took = told.get("duration_s")
    why = explain_no_steps(lead, told.get("command") or [], faults, status, took)
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
    """Why there is no step, as far as is known; completes "No training step was seen: ..."."""
    if lead is not None:
        low, high = _process_life(lead)
        if died := _died_of(lead):
            return f"{_process_name(lead)} ended by {died}"
        rest = f"; what else ran in {took_s or 0.0:.3g} s did not wake the probe"
        return (
            f"{_process_name(lead)} had PyTorch {lead.process.torch or ''} for "
            f"{(high - low) / 1e9:.3g} s and took no optimizer "
            f"step{rest * _was_secondary(lead, took_s)}"
        )
    if faults:
        return faults[0][:1].lower() + faults[0][1:].rstrip(".")
    flags = takewhile(lambda word: word.startswith("-"), command[1:])
    deaf = next((flag for flag in flags if _DEAF.fullmatch(flag)), None)
    if deaf is not None and _PYTHON.search(command[0]):
        return f"Python was started with {deaf}: it then ignores what would wake the probe"
    if status:
        return f"the command ended with status {status}, and no PyTorch was seen in it"
    return "nothing in the command looked like Python with PyTorch"


def advise_no_steps(lead: Timeline, faults: Sequence[str] = ()) -> list[str]:
    """What the user can do about it."""
    if _died_of(lead):
        return []  # an error of the command is its own
    if lead.stepless and lead.stepless.aside:
        return [DEAF_NOTE]
    if lead.process.imported is not None:
        return [OWN_MARKS]
    if faults or (lead.stepless and lead.stepless.failed_early):
        return []  # a fault says that the probe was awake; an error of the command is its own
    return [DEAF_NOTE]


def _was_secondary(lead: Timeline, took_s: float | None) -> bool:
    """Whether that process was only beside what the command did for most of its time."""
    low, high = _process_life(lead)
    return took_s is not None and (high - low) / 1e9 < SHARE * took_s


def _died_of(lead: Timeline) -> str:
    """The exception that ended it, other than the user's."""
    died = (lead.process.died_of or "").rstrip(": ")
    return "" if died == KeyboardInterrupt.__name__ else died


def _lead_process(recording: Path) -> Timeline | None:
    """Of the processes that had the framework and did not train, the one that did so longest."""
    found = (
        _read_process(recording / f"{pid}.spans") for pid in probe.untrained_processes(recording)
    )
    known = [one for one in found if one is not None]
    return max(known, key=lambda one: np.subtract(*_process_life(one)[::-1]), default=None)


def _read_process(path: Path) -> Timeline | None:
    try:
        return read_process(path)
    except BrokenTraceError:  # it ended before anybody had looked
        told = read_document(path.with_suffix(".seen.json"))
        return replace(probe.blank_timeline(path), process=read_facts(told)) if told else None


def _process_name(timeline: Timeline) -> str:
    """The script; a process without one, by what its arguments begin with."""
    word = next(iter(timeline.process.argv), "")
    return f"python {word}".strip() if word.startswith("-") or not word else shlex.quote(word)


def _process_life(timeline: Timeline) -> tuple[int, int]:
    """From the framework's import to the last that was heard of it, ns."""
    begin = timeline.process.imported or timeline.base_ns
    last = timeline.base_ns + int(timeline.host.end.max(initial=0))
    return begin, max(timeline.process.ended or last, begin + 1)


def _monitored_span(outside: Telemetry | None, told: Mapping[str, Any]) -> tuple[int, int] | None:
    """What the monitor saw, else as long as the command took."""
    times = [series.time_ns for series in outside.series.values()] if outside else []
    ends = [int(time[at]) for time in times if len(time) for at in (0, -1)]
    if ends and max(ends) > min(ends):
        return min(ends), max(ends)
    took = told.get("duration_s")
    begin = min(ends, default=0)
    return (begin, begin + max(1, int(took * 1e9))) if took is not None else None


def _span_timeline(timeline: Timeline, low: int, high: int) -> Timeline:
    """With a mark over the whole window, and times that count from its begin."""
    host, shift = timeline.host, timeline.base_ns - low
    host = replace(host, start=host.start + shift, end=host.end + shift)
    kept = host.take_rows((host.end > 0) & (host.start < high - low))
    begin, end, name = np.array([[0], [high - low], [len(timeline.names)]])
    mark = HostEvents.of(begin, end, kind=HostKind.ANNOTATION, name=name, thread=0)
    return replace(
        timeline,
        names=(*timeline.names, SPAN),
        threads=timeline.threads or ("0",),
        host=kept.join(mark),
        base_ns=low,
    )
