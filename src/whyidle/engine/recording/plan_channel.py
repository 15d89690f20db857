"""Fixes as the probe applies them in a running command: how it is asked, and what came of it."""

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

EDITS = "edits.json"
"""what was asked for, in the folder of the recording"""


Made = Mapping[str, Mapping[str, str]]
"""knob -> ``file:line`` of the job that makes what it sets -> why it was not set there; empty where
it was. A knob that sets nothing as it is made is not among them"""


class AppliedKnobs(msgspec.Struct, frozen=True):
    """What became of the knobs in one process: how often each took hold, why others did not;
    what those that took no hold were ``waiting`` for, which counts as their reason where no process
    knows another; and which lines ``made`` what they set. ``multiplied`` is what those found that
    make something so many times as large."""

    applied: dict[str, int] = {}
    declined: dict[str, str] = {}
    waiting: dict[str, str] = {}
    made: dict[str, dict[str, str]] = {}
    multiplied: dict[str, list[int]] = {}


def write_request(
    edits: Mapping[str, Setting | None], was: Mapping[str, Setting | None], folder: Path
) -> dict[str, str]:
    """Write the edits into ``folder`` for the probe, and return the variables that have it read
    them; those that are variables themselves are among them."""
    path = folder / EDITS
    folder.mkdir(parents=True, exist_ok=True)
    asked = {"edits": dict(edits), "was": dict(was), "implementations": _implementations(edits)}
    path.write_text(json.dumps(asked), encoding="utf-8")
    variables = {
        (name := knob.removeprefix(ENVIRONMENT)): _append_variable(name, str(value))
        for knob, value in edits.items()
        if knob.startswith(ENVIRONMENT) and value is not None
    }
    return {**variables, "WHYIDLE_PLAN": str(path)}


def _implementations(knobs: Iterable[str]) -> dict[str, str]:
    """The files that set knobs of other packages in a process: nothing of whyidle, nor of them,
    need be importable there."""
    found = {}
    for knob in knobs:
        if module := catalog.find_knob(knob).implementation:
            try:
                spec = importlib.util.find_spec(module)
            except ImportError:
                spec = None
            found[knob] = (spec.origin if spec else None) or module
    return found


def _append_variable(name: str, value: str) -> str:
    """A variable's value, behind what the user has set in it, where it takes several."""
    own = next((os.environ[each] for each in LISTS.get(name, ()) if os.environ.get(each)), "")
    return f"{own},{value}" if own else value


def read_applied_knobs(recording: Path) -> AppliedKnobs:
    """What became of the knobs in all processes together. A file that cannot be read counts as
    none: its process was ended as it wrote."""
    applied: dict[str, int] = {}
    declined: dict[str, str] = {}
    waiting: dict[str, str] = {}
    made: list[Made] = []
    multiplied: dict[str, list[int]] = {}
    for path in sorted(recording.glob("*.knobs.json")):
        with suppress(OSError, msgspec.DecodeError):
            one = msgspec.json.decode(path.read_bytes(), type=AppliedKnobs)
            declined |= one.declined
            waiting |= one.waiting
            made.append(one.made)
            for knob, times in one.applied.items():
                applied[knob] = applied.get(knob, 0) + times
            for knob, numbers in one.multiplied.items():
                multiplied[knob] = sorted({*multiplied.get(knob, ()), *numbers})
    unmet = {knob: why for knob, why in waiting.items() if knob not in applied}
    return AppliedKnobs(applied, unmet | declined, made=merge_lines(made), multiplied=multiplied)


def merge_lines(told: Iterable[Made]) -> dict[str, dict[str, str]]:
    """What several tell; a line that has left something as it was stands as one that did."""
    found: dict[str, dict[str, str]] = {}
    for knob, lines in (pair for made in told for pair in made.items()):
        known = found.setdefault(knob, {})
        for line, why in lines.items():
            known[line] = known.get(line) or why
    return found


def describe_applied(recording: Path) -> list[str]:
    """What became of the fixes that were asked for, in sentences without a full stop."""
    try:
        asked = json.loads((recording / EDITS).read_bytes())["edits"]
    except (OSError, ValueError, LookupError):
        return []
    found = read_applied_knobs(recording)
    held = [knob for knob in asked if knob in found.applied or knob.startswith(ENVIRONMENT)]
    told = [f"{knob} = {as_python(asked[knob])}" for knob in held]
    notes = [f"Applied without an edit of the script: {', '.join(told)}"] if told else []
    for knob in asked:
        why = found.declined.get(knob, "" if knob in held else "nothing in the job took it up")
        if why:
            again = " everywhere" if knob in held else ""
            notes.append(f"Not applied{again}: {knob} = {as_python(asked[knob])}: {why}")
    return notes
