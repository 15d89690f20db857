"""The plan, ``whyidle/plan/1``: a document of kept fixes that ``whyidle run --plan`` applies."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Final, Literal

import msgspec

from whyidle.model.diagnosis import Consent
from whyidle.model.knobs import Setting

SCHEMA: Final = "whyidle/plan/1"
_LAUNCHERS: Final = (
    *("torch", "accelerate", "deepspeed", "horovod", "lightning", "mpi4py"),
    *("cProfile", "coverage", "debugpy", "pdb", "profile", "runpy", "scalene", "trace"),
)
"""packages whose modules start a program that the command names after them"""
_PYTHON: Final = re.compile(r"python[\d.]*$")


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the document's parts."""


class Speedup(_Part, frozen=True, kw_only=True):
    """A gain: 1.25 is a quarter more steps per second."""

    times: float
    low: float
    high: float


class PlannedFix(_Part, frozen=True, kw_only=True):
    """One fix. ``edits`` are its settings, ``was`` settings of the tried job: an object with other
    ones, such as a second loader, is not changed. A fix that is not ``enabled`` is not applied."""

    fix: str
    consent: Consent
    enabled: bool = True
    summary: str = ""
    predicted: Speedup | None = None
    measured: Speedup | None = None
    edits: dict[str, Setting]
    was: dict[str, Setting] = {}


class FixPlan(_Part, frozen=True, kw_only=True):
    """The whole document. ``made`` is a time in ISO 8601, ``whyidle`` the version."""

    schema: Literal["whyidle/plan/1"] = SCHEMA
    command: list[str]
    made: str
    whyidle: str
    fix: list[PlannedFix] = []

    @property
    def settings(self) -> dict[str, Setting]:
        """Settings of the enabled fixes; the last one of a knob counts."""
        return {name: value for fix in self.fix if fix.enabled for name, value in fix.edits.items()}

    @property
    def previous_settings(self) -> dict[str, Setting]:
        """Known settings before the enabled fixes; the first one of a knob counts, since later
        fixes were tried with the earlier ones in effect."""
        enabled = [fix for fix in reversed(self.fix) if fix.enabled]
        return {name: value for fix in enabled for name, value in fix.was.items()}

    def command_mismatches(self, command: Sequence[str]) -> list[str]:
        """Warnings, as sentences, before the plan is applied to ``command``."""
        warnings = []
        if not self.settings:
            why = "each of its fixes is disabled or sets nothing" if self.fix else "it has no fix"
            warnings.append(f"The plan changes nothing: {why}.")
        planned, actual = _program_words(self.command), _program_words(command)
        if planned and actual and not _may_be_same(planned, actual):
            warnings.append(f"The plan was made for another program: {shlex.join(self.command)}.")
        return warnings


def _program_words(command: Sequence[str]) -> tuple[str, ...]:
    """The path parts of a command's first script, or module (``-m``) that is no launcher."""
    begin = next((at for at, word in enumerate(command) if _PYTHON.match(PurePath(word).name)), 0)
    for flag, word in pairwise(["", *command[begin:]]):  # ``-m`` before Python is a scheduler's
        if word.endswith(".py"):
            return tuple(part for part in PurePath(word).parts if part != "..")
        parts = word.split(".")
        if flag == "-m" and all(map(str.isidentifier, parts)) and parts[0] not in _LAUNCHERS:
            return (*parts[:-1], f"{parts[-1]}.py")
    return ()


def _may_be_same(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    """Whether two paths may be the same file, seen from another folder or on another machine."""
    shared = min(len(first), len(second))
    if first[0] == second[0] == "/":
        shared = 1 if first[1] != second[1] else 2
    return first[-shared:] == second[-shared:]
