"""What every isolation backend is asked for, and has in common."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from whyidle.engine.isolation import network

Level = Literal["namespaces", "landlock", "python"]
LEVELS: tuple[Level, ...] = get_args(Level)
"""the best first"""
GUEST = "WHYIDLE_ISOLATION"
"""the variable that tells the guest's part what to watch for"""


class UnavailableError(Exception):
    """A backend is not available here; the message says what failed."""


TRY_S = 20.0
"""seconds in which a start around nothing must have ended"""


def try_start(words: Sequence[str]) -> bytes:
    """What an isolated start prints that runs no command.

    Raises:
        UnavailableError: it failed, or took longer than ``TRY_S``.
    """
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=TRY_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UnavailableError(str(error)) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise UnavailableError(said.rpartition("could not be isolated: ")[2])
    return done.stdout


@dataclass(frozen=True, slots=True)
class IsolationRequest:
    """``scratch`` is a folder of ours for what is written; in ``real`` ones it is written for good;
    with ``closed`` the command has no network. ``notes`` takes what the guest tells."""

    scratch: Path
    notes: Path
    real: tuple[Path, ...]
    closed: bool

    def guest_request(self) -> dict[str, Any]:
        """What the guest's part is told, whatever the kind."""
        return {"folder": str(self.notes), "local": network.host_names()}


class Backend(Protocol):
    """One way to isolate a command."""

    made: list[Path]
    sends: bool
    """whether code that is no Python reaches a network that is to be closed"""

    @property
    def level(self) -> Level:
        """Its name."""

    def command(self, words: Sequence[str]) -> list[str]:
        """The command, wrapped."""

    def close(self) -> None:
        """Undo what lies outside of ``made``."""
