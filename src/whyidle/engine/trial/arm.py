"""One arm of a trial: the command runs until enough steps are done, and tells what it saw."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import psutil

from whyidle.engine import applied
from whyidle.engine.patch import Patch
from whyidle.engine.patched import Patched, mirror
from whyidle.engine.record import BOOT, Limits
from whyidle.engine.trial.told import FEWEST, Rung, Told, lead, read, rung, stopped
from whyidle.model.diagnosis import Edit

Ending = Literal["stopped", "finished", "crashed", "hung", "silent", "outrun"]
"""``stopped`` after the asked steps; ``silent``: it ended well without a step that was seen;
``outrun``: ended at a rung, because another value of the knob is faster"""
GoOn = Callable[[Rung], bool]
"""asked at each rung whether the arm is to go on"""
GRACE_S = 3.0
"""after its steps are done a job may end by itself for so long"""
TAIL = 2_000
"""characters kept of what it printed"""


class Guard(Protocol):
    """What keeps an arm from overwriting and publishing anything."""

    def command(self, words: Sequence[str]) -> list[str]:
        """The command, kept in."""

    def environment(self) -> Mapping[str, str]:
        """What is added to its environment."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What an arm is to do: ``edits`` to apply; ``steps`` and ``seconds`` from the first step on
    to run at least; ``seed`` is added to all seeds; ``patience_s`` ends it where it hangs; with
    ``profile`` it is also watched in detail; with ``patch`` it runs copies of the user's files
    that are patched so; ``rungs`` are seconds from the first step on after which it tells how long
    a step takes."""

    edits: tuple[Edit, ...] = ()
    steps: int | None = None
    seconds: float | None = None
    seed: int = 0
    patience_s: float = 120.0
    profile: bool = False
    patch: Patch | None = None
    rungs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Ran:
    """What an arm showed. ``told`` is of the first rank; None where no step was seen. ``seconds``
    is what it took altogether, ``rung`` the last one that it came to."""

    ending: Ending
    status: int | None
    seconds: float
    recording: Path
    said: str
    told: Told | None = None
    applied: Mapping[str, int] = field(default_factory=dict)
    declined: Mapping[str, str] = field(default_factory=dict)
    rung: Rung | None = None

    @property
    def good(self) -> bool:
        """Whether its steps can be compared."""
        enough = self.told is not None and len(self.told.marks) >= FEWEST
        return enough and self.ending in ("stopped", "finished")


def run(
    command: Sequence[str], asked: Asked, folder: Path, guard: Guard, go_on: GoOn | None = None
) -> Ran:
    """Run the command as asked; ``folder`` (new, empty) gets its recording and what it printed.
    Without ``go_on`` it always goes on.

    Raises:
        OSError: the copies of patched files cannot be made.
    """
    recording = folder / "recording"
    recording.mkdir(parents=True)
    place = _place(command, asked.patch, folder)
    begin = time.monotonic()
    with (folder / "said.txt").open("wb") as said:
        child = subprocess.Popen(
            guard.command(place.command),
            cwd=place.folder,
            env={**environment(asked, folder, place.environment), **guard.environment()},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            outrun = _Outrun(recording, go_on)
            status = _wait(child, recording, asked, outrun)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            _sweep(recording)
    text = (folder / "said.txt").read_text("utf-8", "replace")[-TAIL:]
    return _read(recording, status, time.monotonic() - begin, text, outrun=outrun.told)


def _place(command: Sequence[str], patch: Patch | None, folder: Path) -> Patched:
    """Where it runs, and with which words: beside its own folder, whose writes stay, where files
    are patched."""
    here = Path.cwd()
    if patch is None:
        return Patched(tuple(command), here, {})
    tree = folder.with_name(f"{folder.name}-patched")
    tree.mkdir()
    return mirror(patch, command, here, tree)


def environment(
    asked: Asked, folder: Path, place: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The job's: with the probe, the witness, and the knobs in it; ``place`` is what its place
    adds."""
    own = {**os.environ, **Limits(profile="auto" if asked.profile else "off").told()}
    own |= place or {}
    before = own.get("PYTHONPATH")
    own["PYTHONPATH"] = os.pathsep.join([str(BOOT), *([before] if before else [])])
    own["WHYIDLE_RUN"] = str(folder / "recording")
    own["PYTHONHASHSEED"] = str(asked.seed)
    limits = {name: getattr(asked, name) for name in ("steps", "seconds", "seed", "rungs")}
    own["WHYIDLE_TRIAL"] = json.dumps(limits)
    if asked.edits:
        edits = {edit.knob: edit.value for edit in asked.edits}
        was = {edit.knob: edit.was for edit in asked.edits}
        own |= applied.ask(edits, was, folder / "recording")
    return own


class _Outrun:
    """Whether an arm has been told at a rung not to go on."""

    def __init__(self, recording: Path, go_on: GoOn | None) -> None:
        self._recording, self._go_on = recording, go_on
        self._seen = 0
        self.told = False

    def look(self) -> bool:
        """Ask at each rung that it has come to since."""
        found = rung(self._recording) if self._go_on else None
        if self._go_on and found is not None and found.number > self._seen:
            self._seen = found.number
            self.told = not self._go_on(found)
        return self.told


def _wait(
    child: subprocess.Popen[bytes], recording: Path, asked: Asked, outrun: _Outrun
) -> int | None:
    """Until it ends, or has told and had its grace, or its time is up, or it is outrun; None where
    it was ended."""
    begin = time.monotonic()
    told = None
    while True:
        with suppress(subprocess.TimeoutExpired):
            return child.wait(0.02)
        now = time.monotonic()
        if told is None and stopped(recording):
            told = now
        if told is not None and now - told > GRACE_S:
            return None
        if told is None and (now - begin > asked.patience_s or outrun.look()):
            return None


def _sweep(recording: Path) -> None:
    """End what the command left behind: launchers start their ranks in sessions of their own. Every
    process of the arm has the name of its recording in its environment."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get("WHYIDLE_RUN") == str(recording):
                process.kill()


def _read(recording: Path, status: int | None, seconds: float, said: str, *, outrun: bool) -> Ran:
    told = lead(read(recording))
    turned = applied.turned(recording)
    return Ran(
        ending="outrun" if outrun else _ending(told, status),
        status=status,
        seconds=seconds,
        recording=recording,
        said=said,
        told=told,
        applied=turned.applied,
        declined=turned.declined,
        rung=rung(recording),
    )


def _ending(told: Told | None, status: int | None) -> Ending:
    if told is not None and told.ended == "stopped":
        return "stopped"
    if status is None:
        return "hung"
    if status:
        return "crashed"
    return "finished" if told is not None else "silent"
