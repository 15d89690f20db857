"""The plan of fixes, ``whyidle/plan/1``: what was kept, to apply without editing.

Unlike ``treatment.Plan``, which is one treatment's proposal, it is a document: a person reads it,
changes it, and gives it to ``whyidle run --plan``.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Final, Literal

import msgspec

from whyidle.model.diagnosis import Consent
from whyidle.model.knobs import Setting

SCHEMA: Final = "whyidle/plan/1"


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the document's parts: frozen, by keyword, strict when read."""


class Speedup(_Part, frozen=True, kw_only=True):
    """How many times as fast: 1.25 is a quarter more steps per second."""

    times: float
    low: float
    high: float


class Fix(_Part, frozen=True, kw_only=True):
    """One fix. ``edits`` says what each of its knobs is set to, ``was`` what some of them were set
    to in the job that it was tried on: where they are not, it is another loader, say, and left
    alone; of batches made so many times as large, the sizes. Without ``enabled`` the fix stays in
    the plan and is not applied."""

    treatment: str
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
    fix: list[Fix] = []

    @property
    def settings(self) -> dict[str, Setting]:
        """What each knob is set to by the enabled fixes; the last one decides."""
        return {
            name: value for each in self.fix if each.enabled for name, value in each.edits.items()
        }

    @property
    def was(self) -> dict[str, Setting]:
        """What knobs of the enabled fixes were set to, where that is known; the first decides:
        a later fix was tried with those before it."""
        return {
            name: value
            for each in reversed(self.fix)
            if each.enabled
            for name, value in each.was.items()
        }

    def doubts(self, command: Sequence[str]) -> list[str]:
        """What whoever applies it to ``command`` may not have meant, as sentences."""
        found = []
        if not self.settings:
            why = (
                "each of its fixes is switched off or sets nothing" if self.fix else "it has no fix"
            )
            found.append(f"The plan changes nothing: {why}.")
        made, given = _program(self.command), _program(command)
        if made and given and not _same(made, given):
            found.append(f"The plan was made for another program: {shlex.join(self.command)}.")
        return found


def _program(command: Sequence[str]) -> tuple[str, ...]:
    """The first script of a command, by folder, or its last module (``-m``: those before it are
    launchers), told apart from its options by their form; nothing where it is of another kind."""
    scripts = [word for word in command if word.endswith(".py")]
    if scripts:
        return tuple(part for part in PurePath(scripts[0]).parts if part != "..")
    modules = [name for flag, name in pairwise(command) if flag == "-m"]
    return tuple(modules[-1:])


def _same(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether they may be the same file, named from another folder."""
    shared = min(len(one), len(other))
    return one[-shared:] == other[-shared:]
