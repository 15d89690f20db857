"""Runs a command with the probe in it, untouched otherwise, and returns what it left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from whyidle.engine.recording.signal_relay import relay_signals
from whyidle.errors import UsageError

BOOT = Path(__file__).parents[2] / "probe" / "boot"


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a watched command ended. ``status`` is what a shell would report."""

    status: int
    started: str
    duration_s: float


def command_of(words: Sequence[str]) -> list[str]:
    """What to execute: a first word that ends in ``.py`` is run with this interpreter.

    Raises:
        UsageError: there is nothing to run.
    """
    words = list(words[1:] if words[:1] == ["--"] else words)
    if not words:
        raise UsageError("There is no command to watch.", hint="whyidle run python train.py")
    return [sys.executable, *words] if words[0].endswith(".py") else words


@dataclass(frozen=True, slots=True)
class WatchLimits:
    """When to stop watching, and when to end the job, in optimizer steps; None is never."""

    steps: int | None = None
    stop_after: int | None = None
    profile: Literal["auto", "off", "look"] = "auto"
    """short recordings of every operator: where they are worth it, not at all, or soon and
    whatever they cost, for a run that is only looked at"""

    def limit_variables(self) -> dict[str, str]:
        """As the probe is told."""
        asked = {"WHYIDLE_STEPS": self.steps, "WHYIDLE_STOP_AFTER": self.stop_after}
        told = {name: str(number) for name, number in asked.items() if number is not None}
        return told | ({"WHYIDLE_PROFILE": self.profile} if self.profile != "auto" else {})


def command_environment(
    folder: Path, limits: WatchLimits | None = None, variables: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The command's environment: ours, with the probe's boot folder first on PYTHONPATH;
    ``variables`` are set besides."""
    before = os.environ.get("PYTHONPATH")
    paths = [str(BOOT), *([before] if before else [])]
    own = {"PYTHONPATH": os.pathsep.join(paths), "WHYIDLE_RUN": str(folder)}
    return {
        **os.environ,
        **(variables or {}),
        **own,
        **(limits.limit_variables() if limits else {}),
    }


Beside = Callable[[int], AbstractContextManager[object]]
"""what goes on beside the command, from its first process's id, while it runs"""


def run_recorded(
    command: Sequence[str],
    folder: Path | None,
    limits: WatchLimits | None = None,
    beside: Sequence[Beside] = (),
    variables: Mapping[str, str] | None = None,
) -> CommandEnd:
    """Run a command to its end. Its streams are its own; signals sent to us reach it. Without a
    folder it is not watched, and ``variables`` are not set.

    Raises:
        UsageError: the command cannot be started.
    """
    started = datetime.now(timezone.utc)
    with relay_signals() as (signals, numbers):
        try:
            env = command_environment(folder, limits, variables) if folder else None
            child = subprocess.Popen(command, env=env)
        except OSError as error:
            raise UsageError(
                f"Cannot run {command[0]}.",
                why=f"{error.strerror or error}.",
                hint="Check the command.",
            ) from error
        signals.start_relaying(child, numbers)
        with ExitStack() as running:
            for begin in beside:
                running.enter_context(begin(child.pid))
            status = child.wait()
    took = (datetime.now(timezone.utc) - started).total_seconds()
    return CommandEnd(
        status=128 - status if status < 0 else status,
        started=started.isoformat(timespec="seconds"),
        duration_s=took,
    )
