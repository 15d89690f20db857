"""Runs a command with the probe, otherwise unchanged."""

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

from whyidle.errors import UsageError
from whyidle.record.signal_relay import relay_signals

BOOT = Path(__file__).parents[1] / "probe" / "boot"
LOOKS = ("memory", "model", "ranks")
"""what ``--look`` takes: measurements inside the job that cost some steps"""


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """The end of a watched command; ``status`` as a shell reports it."""

    status: int
    started: str
    duration_s: float


def command_of(words: Sequence[str]) -> list[str]:
    """The command to execute; a first word that ends in ``.py`` is run with this interpreter.

    Raises:
        UsageError: the command is empty.
    """
    words = list(words[1:] if words[:1] == ["--"] else words)
    if not words:
        raise UsageError("The command is missing.", hint="whyidle run python train.py")
    return [sys.executable, *words] if words[0].endswith(".py") else words


@dataclass(frozen=True, slots=True)
class WatchLimits:
    """When to stop watching, and when to end the job, in optimizer steps; None is never."""

    steps: int | None = None
    stop_after: int | None = None
    profile: Literal["auto", "off", "look"] = "auto"
    """profiler bursts: if they are worth their cost, never, or immediately"""
    looks: tuple[str, ...] = ()
    """looks that cost some steps (``LOOKS``)"""
    memory_for: int | None = None
    """memory of the device that the look at memory plans for, bytes"""

    def limit_variables(self) -> dict[str, str]:
        """The limits as environment variables of the probe."""
        limits = {
            "WHYIDLE_STEPS": self.steps,
            "WHYIDLE_STOP_AFTER": self.stop_after,
            "WHYIDLE_MEMORY_FOR": self.memory_for,
        }
        variables = {name: str(number) for name, number in limits.items() if number is not None}
        variables |= {"WHYIDLE_PROFILE": self.profile} if self.profile != "auto" else {}
        if "memory" in self.looks:  # PyTorch would print that it began to record in the middle
            variables["TORCH_CPP_LOG_LEVEL"] = os.environ.get("TORCH_CPP_LOG_LEVEL", "ERROR")
        return variables | ({"WHYIDLE_LOOK": ",".join(self.looks)} if self.looks else {})


def command_environment(
    folder: Path, limits: WatchLimits | None = None, variables: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The current environment with ``variables`` and the probe's boot folder on PYTHONPATH."""
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
"""runs while the command runs; takes the id of its first process"""


def run_recorded(
    command: Sequence[str],
    folder: Path | None,
    limits: WatchLimits | None = None,
    beside: Sequence[Beside] = (),
    variables: Mapping[str, str] | None = None,
) -> CommandEnd:
    """Run a command to its end, with its own streams and the contexts ``beside``; signals are
    passed on to it. With a ``folder`` for the recording it is watched, with further environment
    ``variables``.

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
