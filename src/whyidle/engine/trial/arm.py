"""One arm of a trial: the command runs until enough steps are done, and tells what it saw."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol

from whyidle.engine import applied
from whyidle.engine.applied import Made
from whyidle.engine.isolation import IsolationReport, Stock
from whyidle.engine.patch import Patch
from whyidle.engine.patched import Patched, mirror
from whyidle.engine.record import BOOT, Limits
from whyidle.engine.trial import given, ranks, sweep
from whyidle.engine.trial.told import FEWEST, Told, lead, read, rung
from whyidle.engine.trial.tree import Sample
from whyidle.engine.trial.waiting import Outrun, Watch
from whyidle.engine.watch import monitor
from whyidle.model.diagnosis import Edit

Ending = Literal["stopped", "finished", "crashed", "hung", "silent", "outrun", "full"]
"""``stopped`` after the asked steps; ``silent``: it ended well without a step that was seen;
``outrun``: ended at a rung, because another value of the knob is faster; ``full``: ended because
what it wrote left too little room"""
TAIL = 20_000
"""characters kept of what it printed"""


class Guard(Protocol):
    """What keeps an arm from overwriting and publishing anything."""

    def command(self, words: Sequence[str]) -> list[str]:
        """The command, kept in."""

    def environment(self) -> Mapping[str, str]:
        """What is added to its environment."""

    @property
    def places(self) -> Sequence[Path]:
        """Folders of ours that take what it writes."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What an arm is to do: ``edits`` to apply; ``steps`` and ``seconds`` from the first step on
    to run at least; ``seed`` is added to all seeds; ``patience_s`` ends it where it hangs; with
    ``profile`` it is also watched in detail, and goes on until its operators
    have been recorded once; with ``sway``, a seed, its results are off by about
    what another order of its sums brings; with ``eager`` compiled code draws the random numbers
    that it would draw uncompiled; with ``patch`` it runs copies of the user's files that
    are patched so; ``rungs`` are seconds from the first step on after which it tells how long a
    step takes, or with ``per_sample`` a sample; with ``noise`` gradients are compared from step to
    step."""

    edits: tuple[Edit, ...] = ()
    steps: int | None = None
    seconds: float | None = None
    seed: int = 0
    patience_s: float = 120.0
    profile: bool = False
    sway: int = 0
    eager: bool = False
    patch: Patch | None = None
    rungs: tuple[float, ...] = ()
    per_sample: bool = False
    noise: bool = False


@dataclass(frozen=True, slots=True)
class Ran:
    """What an arm showed. ``told`` is of the first rank; None where no step was seen. ``ranks`` is
    what each told, ``lost`` those that died and left the others waiting. ``seconds`` is what it
    took altogether, ``samples`` what its processes held meanwhile, ``rungs`` the seconds of a step
    by rung; ``swayed`` is whether its results were off on purpose; ``full`` says where too little
    room was left, if that ended it; ``behind`` is what stood around it; ``stumbled`` is whether an
    error comes of a link of ours."""

    ending: Ending
    status: int | None
    seconds: float
    recording: Path
    said: str
    told: Told | None = None
    applied: Mapping[str, int] = field(default_factory=dict)
    declined: Mapping[str, str] = field(default_factory=dict)
    made: Made = field(default_factory=dict)
    multiplied: Mapping[str, Sequence[int]] = field(default_factory=dict)
    rungs: Mapping[int, float] = field(default_factory=dict)
    ranks: Mapping[int, Told] = field(default_factory=dict)
    lost: Sequence[int] = ()
    samples: Sequence[Sample] = ()
    swayed: bool = False
    full: str = ""
    behind: IsolationReport | None = None
    stumbled: bool = False

    @property
    def good(self) -> bool:
        """Whether its steps can be compared."""
        if self.told is None or any(one.unswayed for one in (self.told, *self.ranks.values())):
            return False
        enough = len(self.told.marks) >= FEWEST
        return enough and self.ending in ("stopped", "finished")


def run(
    command: Sequence[str],
    asked: Asked,
    folder: Path,
    guard: Guard,
    slowest: Mapping[int, float] | None = None,
) -> Ran:
    """Run the command as asked; ``folder`` (new, empty) gets its recording and what it printed.
    In a race, ``slowest`` is the most seconds of a step by rung: an arm that takes longer is ended.

    Raises:
        OSError: the copies of patched files cannot be made.
    """
    recording = folder / "recording"
    recording.mkdir(parents=True)
    place = _place(command, asked.patch, folder)
    stock, begin = Stock(guard.places), time.monotonic()
    with (folder / "said.txt").open("wb") as said, given.stdin() as stdin:
        child = subprocess.Popen(
            guard.command(place.command),
            cwd=place.folder,
            env={**environment(asked, folder, place.environment), **guard.environment()},
            stdin=stdin,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        watch = Watch(child, recording, asked.patience_s, Outrun(recording, slowest), stock)
        try:
            with monitor(recording, child.pid) if asked.profile else nullcontext():
                status = watch.wait()
        finally:
            kin = sweep.kin(child.pid)
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            sweep.end(recording, kin)
    text = (folder / "said.txt").read_text("utf-8", "replace")[-TAIL:]
    ran = _read(watch, status, time.monotonic() - begin, text)
    return replace(ran, swayed=bool(asked.sway), stumbled=place.stumbled(text))


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
    own = {**os.environ, **Limits(profile="look" if asked.profile else "off").told()}
    own |= place or {}
    before = own.get("PYTHONPATH")
    own["PYTHONPATH"] = os.pathsep.join([str(BOOT), *([before] if before else [])])
    own["WHYIDLE_RUN"] = str(folder / "recording")
    own["PYTHONHASHSEED"] = str(asked.seed)
    told = ("steps", "seconds", "seed", "sway", "eager", "rungs", "per_sample", "noise", "profile")
    limits = {name: getattr(asked, name) for name in told}
    own["WHYIDLE_TRIAL"] = json.dumps(limits)
    if asked.edits:
        edits = {edit.knob: edit.value for edit in asked.edits}
        was = {edit.knob: edit.was for edit in asked.edits}
        own |= applied.ask(edits, was, folder / "recording")
    return own


def _read(watch: Watch, status: int | None, seconds: float, said: str) -> Ran:
    recording = watch.recording
    found, last = read(recording), rung(recording)
    turned = applied.turned(recording)
    return Ran(
        ending=_ending(watch, lead(found), status),
        status=status,
        seconds=seconds,
        recording=recording,
        said=said,
        told=lead(found),
        applied=turned.applied,
        declined=turned.declined,
        made=turned.made,
        multiplied=turned.multiplied,
        rungs=watch.outrun.rungs | ({last.number: last.step_s} if last else {}),
        ranks=ranks.by_rank(found),
        lost=watch.lost,
        samples=watch.tree.samples,
        full=watch.full,
    )


def _ending(watch: Watch, told: Told | None, status: int | None) -> Ending:
    if watch.outrun.told:
        return "outrun"
    if told is not None and told.ended == "stopped":
        return "stopped"
    if watch.full:
        return "full"
    if watch.lost:
        return "crashed"
    if status is None:
        return "hung"
    if status:
        return "crashed"
    return "finished" if told is not None else "silent"
