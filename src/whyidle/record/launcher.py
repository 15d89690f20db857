"""Runs a command with the probe, otherwise unchanged.

A signal sent to whyidle alone must be passed on. A signal sent to the process group (Ctrl-C in a
terminal, ``timeout``, a batch system) has already reached the command, and a second one would abort
its clean exit. A handler cannot distinguish the two, so a listener process in the same group
reports whether it received the signal too.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType
from typing import Literal

from whyidle.errors import UsageError

BOOT = Path(__file__).parents[1] / "probe" / "boot"
LOOKS = ("memory", "model", "ranks")
"""what ``--look`` takes: measurements inside the job that cost some steps"""
PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
PATIENCE_S = 0.1  # time to wait for the listener before a signal counts as sent to whyidle alone
SAME_S = 0.5  # a signal that the listener received within this time is the same
_HEARD = struct.Struct("qd")
_LISTENER = """
import os, signal, struct, sys, time
def heard(number, frame):
    os.write(1, struct.pack("qd", number, time.monotonic()))
for number in map(int, sys.argv[1:]):
    signal.signal(number, heard)
os.read(0, 1)
"""


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


class SignalRelay:
    """Receives signals, and passes them on once the command has started."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._waiting: list[int] = []
        self._listener: subprocess.Popen[bytes] | None = None
        self._last: dict[int, float] = {}

    def start_relaying(self, child: subprocess.Popen[bytes], numbers: list[int]) -> None:
        """Pass on earlier signals to ``child``, and further ones from now on."""
        with suppress(OSError):
            self._listener = subprocess.Popen(
                [sys.executable, "-ISc", _LISTENER, *map(str, numbers)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
            )
            if self._listener.stdout is not None:
                os.set_blocking(self._listener.stdout.fileno(), False)
        self._child = child
        while self._waiting:
            self._send_signal(self._waiting.pop(0))

    def receive_signal(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        del frame
        child = self._child
        if child is None:
            self._waiting.append(number)
        elif child.poll() is None and not (_same_group(child) and self._was_delivered(number)):
            self._send_signal(number)

    def stop_relaying(self) -> None:
        """Stop the listener after the command has ended."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.kill()
            listener.communicate()

    def _send_signal(self, number: int) -> None:
        if self._child is not None:
            self._child.send_signal(number)

    def _was_delivered(self, number: int) -> bool:
        """Whether the listener received this signal too. ``timeout`` sends it twice, to whyidle and
        to the group, so one record of the listener counts for both."""
        now = time.monotonic()
        while True:  # while waiting, a second signal may be handled and read the record
            if abs(self._last.get(number, -SAME_S) - now) < SAME_S:
                return True
            listener, left = self._listener, now + PATIENCE_S - time.monotonic()
            if listener is None or listener.stdout is None or left <= 0:
                return False
            if not select.select([listener.stdout], [], [], left)[0]:
                continue
            record = listener.stdout.read(_HEARD.size)
            if record == b"":  # it was not ready yet, and a signal ended it
                return listener.wait() == -number
            if record:
                heard, moment = _HEARD.unpack(record)
                self._last[heard] = moment


@contextmanager
def relay_signals() -> Iterator[tuple[SignalRelay, list[int]]]:
    """Receive signals while the block runs, except for those that are ignored (``nohup``)."""
    made = SignalRelay()
    known = [getattr(signal, name) for name in PASSED_ON if hasattr(signal, name)]
    numbers = [number for number in known if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, made.receive_signal) for number in numbers}
    try:
        yield made, [int(number) for number in numbers]
    finally:
        made.stop_relaying()
        for number, handler in before.items():
            signal.signal(number, handler)


def _same_group(child: subprocess.Popen[bytes]) -> bool:
    try:
        return os.getpgid(child.pid) == os.getpgrp()
    except (OSError, AttributeError):
        return False
