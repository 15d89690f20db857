"""The plan of fixes, ``whyidle/plan/1``: what was kept, to apply without editing.

Unlike ``fix.Proposal``, which is one fix's proposal, it is a document: a person reads it,
changes it, and gives it to ``whyidle run --plan``.
"""

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
"""whose modules start a program that the command names after them"""
_PYTHON: Final = re.compile(r"python[\d.]*$")


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the document's parts: frozen, by keyword, strict when read."""


class Speedup(_Part, frozen=True, kw_only=True):
    """How many times as fast: 1.25 is a quarter more steps per second."""

    times: float
    low: float
    high: float


class PlannedFix(_Part, frozen=True, kw_only=True):
    """One fix. ``edits`` says what each of its knobs is set to, ``was`` what some of them were set
    to in the job that it was tried on: where they are not, it is another loader, say, and left
    alone; of batches made so many times as large, the sizes. Without ``enabled`` the fix stays in
    the plan and is not applied."""

    fix: str
    consent: Consent
    enabled: bool = True
    summary: str = ""
    predicted: Speedup | None = None
    measured: Speedup | None = None
    edits: dict[str, Setting]
    was: dict[str, Setting] = {}


class FixPlan(_Part, frozen=True, kw_only=True):
    """The whole document. ``made`` is a time as ISO 8601, ``whyidle`` the version that made it."""

    schema: Literal["whyidle/plan/1"] = SCHEMA
    command: list[str]
    made: str
    whyidle: str
    fix: list[PlannedFix] = []

    @property
    def settings(self) -> dict[str, Setting]:
        """What each knob is set to by the enabled fixes; the last one decides."""
        return {
            name: value for each in self.fix if each.enabled for name, value in each.edits.items()
        }

    @property
    def previous_settings(self) -> dict[str, Setting]:
        """What knobs of the enabled fixes were set to, where that is known; the first decides:
        a later fix was tried with those before it."""
        return {
            name: value
            for each in reversed(self.fix)
            if each.enabled
            for name, value in each.was.items()
        }

    def command_mismatches(self, command: Sequence[str]) -> list[str]:
        """What whoever applies it to ``command`` may not have meant, as sentences."""
        found = []
        if not self.settings:
            why = (
                "each of its fixes is switched off or sets nothing" if self.fix else "it has no fix"
            )
            found.append(f"The plan changes nothing: {why}.")
        made, given = _program_words(self.command), _program_words(command)
        if made and given and not _may_be_same(made, given):
            found.append(f"The plan was made for another program: {shlex.join(self.command)}.")
        return found


def _program_words(command: Sequence[str]) -> tuple[str, ...]:
    """The first script of a command, or module (``-m``) that is no launcher, by its parts; what
    comes after is the program's own. Nothing where it is of another kind."""
    begin = next((at for at, word in enumerate(command) if _PYTHON.match(PurePath(word).name)), 0)
    for flag, word in pairwise(["", *command[begin:]]):  # ``-m`` before Python is a scheduler's
        if word.endswith(".py"):
            return tuple(part for part in PurePath(word).parts if part != "..")
        parts = word.split(".")
        if flag == "-m" and all(map(str.isidentifier, parts)) and parts[0] not in _LAUNCHERS:
            return (*parts[:-1], f"{parts[-1]}.py")
    return ()


def _may_be_same(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether they may be the same file, named from another folder, or in another place: a checkout
    has other folders above it on another machine, and in a container another name."""
    shared = min(len(one), len(other))
    if one[0] == other[0] == "/":
        shared = 1 if one[1] != other[1] else 2
    return one[-shared:] == other[-shared:]
