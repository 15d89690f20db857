"""Sends edits to the probe of a command, and reads which ones it applied."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from whyidle import catalog
from whyidle.model.knobs import ENVIRONMENT, LISTS, Setting, as_python

EDITS = "edits.json"  # the requested edits, in the recording's folder


Made = Mapping[str, Mapping[str, str]]
"""knob -> ``file:line`` of the job that creates the object it sets -> why it was not set there
(empty: it was). Only of knobs that are set at creation"""


class AppliedKnobs(msgspec.Struct, frozen=True):
    """Results of the knobs in one process."""

    applied: dict[str, int] = {}  # how often each took effect
    declined: dict[str, str] = {}  # why others did not
    waiting: dict[str, str] = {}
    """what a knob without effect waited for: its reason if no process declined it"""
    made: dict[str, dict[str, str]] = {}  # lines that created what it sets (`Made`)


def write_request(
    edits: Mapping[str, Setting | None], was: Mapping[str, Setting | None], folder: Path
) -> dict[str, str]:
    """Write the edits into ``folder`` for the probe. Returns the environment variables to set,
    including edits of environment variables."""
    path = folder / EDITS
    folder.mkdir(parents=True, exist_ok=True)
    request = {"edits": dict(edits), "was": dict(was), "implementations": _implementations(edits)}
    path.write_text(json.dumps(request), encoding="utf-8")
    variables = {
        (name := knob.removeprefix(ENVIRONMENT)): _append_variable(name, str(value))
        for knob, value in edits.items()
        if knob.startswith(ENVIRONMENT) and value is not None
    }
    return {**variables, "WHYIDLE_PLAN": str(path)}


def _implementations(knobs: Iterable[str]) -> dict[str, str]:
    """Files that implement knobs of other packages, which need not be importable in the job."""
    files = {}
    for knob in knobs:
        if module := catalog.find_knob(knob).implementation:
            try:
                spec = importlib.util.find_spec(module)
            except ImportError:
                spec = None
            files[knob] = (spec.origin if spec else None) or module
    return files


def _append_variable(name: str, value: str) -> str:
    own = next((os.environ[each] for each in LISTS.get(name, ()) if os.environ.get(each)), "")
    return f"{own},{value}" if own else value


def read_applied_knobs(recording: Path) -> AppliedKnobs:
    """Combine the results of all processes; files of processes killed while writing are skipped."""
    applied: dict[str, int] = {}
    declined: dict[str, str] = {}
    waiting: dict[str, str] = {}
    made: list[Made] = []
    for path in sorted(recording.glob("*.knobs.json")):
        with suppress(OSError, msgspec.DecodeError):
            one = msgspec.json.decode(path.read_bytes(), type=AppliedKnobs)
            declined |= one.declined
            waiting |= one.waiting
            made.append(one.made)
            for knob, times in one.applied.items():
                applied[knob] = applied.get(knob, 0) + times
    unmet = {knob: why for knob, why in waiting.items() if knob not in applied}
    return AppliedKnobs(applied, unmet | declined, made=merge_lines(made))


def merge_lines(documents: Iterable[Made]) -> dict[str, dict[str, str]]:
    """Merge the lines of several processes; a reason against setting prevails."""
    merged: dict[str, dict[str, str]] = {}
    for knob, lines in (pair for document in documents for pair in document.items()):
        known = merged.setdefault(knob, {})
        for line, why in lines.items():
            known[line] = known.get(line) or why
    return merged


def describe_applied(recording: Path) -> list[str]:
    """Describe which requested edits were applied, in sentences without full stop."""
    try:
        edits = json.loads((recording / EDITS).read_bytes())["edits"]
    except (OSError, ValueError, LookupError):
        return []
    results = read_applied_knobs(recording)
    applied = [knob for knob in edits if knob in results.applied or knob.startswith(ENVIRONMENT)]
    settings = [f"{knob} = {as_python(edits[knob])}" for knob in applied]
    notes = [f"Applied without editing the script: {', '.join(settings)}"] if settings else []
    for knob in edits:
        why = results.declined.get(knob, "" if knob in applied else "it took no effect in this job")
        if why:
            again = " everywhere" if knob in applied else ""
            notes.append(f"Not applied{again}: {knob} = {as_python(edits[knob])}: {why}")
    return notes
