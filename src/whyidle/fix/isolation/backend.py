"""The interface of isolation backends."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from whyidle.fix.isolation import network

Level = Literal["namespaces", "landlock", "python"]
LEVELS: tuple[Level, ...] = get_args(Level)  # best first
GUEST = "WHYIDLE_ISOLATION"  # environment variable: path of the guest request


class UnavailableError(Exception):
    """A backend is not available on this machine."""


TRY_S = 20.0  # time limit of a test start


def try_start(words: Sequence[str]) -> bytes:
    """Run an isolated start without a command, and return its output.

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
    """Settings of an isolation."""

    scratch: Path  # temporary folder for redirected writes
    notes: Path  # folder for notes of the guest, the part of the probe inside the isolation
    real: tuple[Path, ...]  # folders in which writes are permanent
    closed: bool  # whether the network is closed

    def guest_request(self) -> dict[str, Any]:
        """Settings of the guest that all backends have in common."""
        return {"folder": str(self.notes), "local": network.host_names()}


class Backend(Protocol):
    """One way to isolate a command."""

    made: list[Path]
    sends: bool  # whether code other than Python can reach the network although it should be closed

    @property
    def level(self) -> Level:
        """The kind of isolation."""

    def command(self, words: Sequence[str]) -> list[str]:
        """Wrap the command."""

    def close(self) -> None:
        """Undo effects outside the folders in ``made``."""
