"""What every kind of shield is asked for, and has in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from whyidle.engine.shield import network

Level = Literal["namespaces", "landlock", "python"]
LEVELS: tuple[Level, ...] = get_args(Level)
"""the best first"""
GUEST = "WHYIDLE_SHIELD"
"""the variable that tells the guest's part what to watch for"""


class UnavailableError(Exception):
    """The kind of shield cannot be had here; the message says what failed."""


def reason(said: bytes) -> str:
    """Why a start failed, of what it wrote to its standard error."""
    return said.decode(errors="replace").strip().rpartition("could not be shielded: ")[2]


@dataclass(frozen=True, slots=True)
class Upper:
    """Where what a command writes in ``folder`` ends up, and, where an overlay does not mark it
    there itself, what it removes."""

    folder: str
    path: Path
    gone: Path | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """``scratch`` is a folder of ours for what is written; in ``real`` ones it is written for good;
    with ``closed`` the command has no network. ``notes`` takes what the guest tells."""

    scratch: Path
    notes: Path
    real: tuple[Path, ...]
    closed: bool

    def guest(self) -> dict[str, Any]:
        """What the guest's part is told, whatever the kind."""
        return {"folder": str(self.notes), "local": network.names()}


class Kind(Protocol):
    """One kind of shield."""

    uppers: list[Upper]
    made: list[Path]
    sends: bool
    """whether code that is no Python reaches a network that is to be closed"""

    @property
    def denied(self) -> list[str]:
        """Folders directly in which nothing can be written."""

    @property
    def level(self) -> Level:
        """Its name."""

    def command(self, words: Sequence[str]) -> list[str]:
        """The command, wrapped."""

    def close(self) -> None:
        """Undo what lies outside of ``made``."""
