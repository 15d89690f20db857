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

from whyidle.engine.isolation import IsolationReport, RoomWatch
from whyidle.engine.patching.patched_mirror import PatchedCommand, make_mirror
from whyidle.engine.patching.source_patch import SourcePatch
from whyidle.engine.recording import plan_channel
from whyidle.engine.recording.launcher import BOOT, WatchLimits
from whyidle.engine.recording.plan_channel import Made
from whyidle.engine.recording.recording_diagnosis import start_monitor
from whyidle.engine.trial.arms import lost_ranks, orphan_cleanup, stdin_replay
from whyidle.engine.trial.arms.arm_watchdog import ArmWatchdog, RaceCutoff
from whyidle.engine.trial.arms.process_report import (
    FEWEST,
    ProcessReport,
    last_rung,
    lead_report,
    read_reports,
)
from whyidle.engine.trial.arms.process_tree import TreeSample
from whyidle.model.diagnosis import Edit

Ending = Literal["stopped", "finished", "crashed", "hung", "silent", "outrun", "full"]
"""``stopped`` after the asked steps; ``silent``: it ended well without a step that was seen;
``outrun``: ended at a rung, because another value of the knob is faster; ``full``: ended because
what it wrote left too little room"""
TAIL = 20_000
"""characters kept of what it printed"""


class ArmIsolation(Protocol):
    """What keeps an arm from overwriting and publishing anything."""

    def command(self, words: Sequence[str]) -> list[str]:
        """The command, kept in."""

    def environment(self) -> Mapping[str, str]:
        """What is added to its environment."""

    @property
    def places(self) -> Sequence[Path]:
        """Folders of ours that take what it writes."""


@dataclass(frozen=True, slots=True)
class ArmRequest:
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
    patch: SourcePatch | None = None
    rungs: tuple[float, ...] = ()
    per_sample: bool = False
    noise: bool = False


@dataclass(frozen=True, slots=True)
class ArmResult:
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
    told: ProcessReport | None = None
    applied: Mapping[str, int] = field(default_factory=dict)
    declined: Mapping[str, str] = field(default_factory=dict)
    made: Made = field(default_factory=dict)
    multiplied: Mapping[str, Sequence[int]] = field(default_factory=dict)
    rungs: Mapping[int, float] = field(default_factory=dict)
    ranks: Mapping[int, ProcessReport] = field(default_factory=dict)
    lost: Sequence[int] = ()
    samples: Sequence[TreeSample] = ()
    swayed: bool = False
    full: str = ""
    behind: IsolationReport | None = None
    stumbled: bool = False

    @property
    def is_comparable(self) -> bool:
        """Whether its steps can be compared."""
        if self.told is None or any(one.unswayed for one in (self.told, *self.ranks.values())):
            return False
        enough = len(self.told.marks) >= FEWEST
        return enough and self.ending in ("stopped", "finished")


def run_arm(
    command: Sequence[str],
    asked: ArmRequest,
    folder: Path,
    guard: ArmIsolation,
    slowest: Mapping[int, float] | None = None,
) -> ArmResult:
    """Run the command as asked; ``folder`` (new, empty) gets its recording and what it printed.
    In a race, ``slowest`` is the most seconds of a step by rung: an arm that takes longer is ended.

    Raises:
        OSError: the copies of patched files cannot be made.
    """
    recording = folder / "recording"
    recording.mkdir(parents=True)
    place = _arm_place(command, asked.patch, folder)
    stock, begin = RoomWatch(guard.places), time.monotonic()
    with (folder / "said.txt").open("wb") as said, stdin_replay.open_stdin() as stdin:
        child = subprocess.Popen(
            guard.command(place.command),
            cwd=place.folder,
            env={**arm_environment(asked, folder, place.environment), **guard.environment()},
            stdin=stdin,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        watch = ArmWatchdog(
            child, recording, asked.patience_s, RaceCutoff(recording, slowest), stock
        )
        try:
            with start_monitor(recording, child.pid) if asked.profile else nullcontext():
                status = watch.wait_for_end()
        finally:
            kin = orphan_cleanup.descendants(child.pid)
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            orphan_cleanup.end_processes(recording, kin)
    text = (folder / "said.txt").read_text("utf-8", "replace")[-TAIL:]
    ran = _read_result(watch, status, time.monotonic() - begin, text)
    return replace(ran, swayed=bool(asked.sway), stumbled=place.failed_on_link(text))


def _arm_place(command: Sequence[str], patch: SourcePatch | None, folder: Path) -> PatchedCommand:
    """Where it runs, and with which words: beside its own folder, whose writes stay, where files
    are patched."""
    here = Path.cwd()
    if patch is None:
        return PatchedCommand(tuple(command), here, {})
    tree = folder.with_name(f"{folder.name}-patched")
    tree.mkdir()
    return make_mirror(patch, command, here, tree)


def arm_environment(
    asked: ArmRequest, folder: Path, place: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The job's: with the probe, the witness, and the knobs in it; ``place`` is what its place
    adds."""
    own = {
        **os.environ,
        **WatchLimits(profile="look" if asked.profile else "off").limit_variables(),
    }
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
        own |= plan_channel.write_request(edits, was, folder / "recording")
    return own


def _read_result(watch: ArmWatchdog, status: int | None, seconds: float, said: str) -> ArmResult:
    recording = watch.recording
    found, last = read_reports(recording), last_rung(recording)
    turned = plan_channel.read_applied_knobs(recording)
    return ArmResult(
        ending=_classify_ending(watch, lead_report(found), status),
        status=status,
        seconds=seconds,
        recording=recording,
        said=said,
        told=lead_report(found),
        applied=turned.applied,
        declined=turned.declined,
        made=turned.made,
        multiplied=turned.multiplied,
        rungs=watch.outrun.rungs | ({last.number: last.step_s} if last else {}),
        ranks=lost_ranks.by_rank(found),
        lost=watch.lost,
        samples=watch.tree.samples,
        full=watch.full,
    )


def _classify_ending(watch: ArmWatchdog, told: ProcessReport | None, status: int | None) -> Ending:
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
