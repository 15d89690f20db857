"""Runs one arm of a trial until enough steps are done, and collects its result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol

import psutil

from whyidle.fix.arms.process_report import (
    FEWEST,
    ProcessReport,
    lead_report,
    read_reports,
    was_stopped,
)
from whyidle.fix.arms.process_tree import ProcessTree, TreeSample
from whyidle.fix.isolation import IsolationReport, RoomWatch
from whyidle.fix.patching.patched_mirror import PatchedCommand, make_mirror
from whyidle.fix.patching.source_patch import SourcePatch
from whyidle.model.diagnosis import Edit
from whyidle.record import plan_channel
from whyidle.record.launcher import BOOT, WatchLimits
from whyidle.record.plan_channel import Made
from whyidle.record.recording_diagnosis import start_monitor

GRACE_S = 3.0  # time for a job to exit after its last step
WAIT_S, LOOK_S = 0.02, 0.5  # interval of checks for the end, and of checks of ranks and disk space


try:
    import fcntl
except ImportError:  # without file locks, dead ranks cannot be recognised
    fcntl = None  # type: ignore[assignment]

LOST_S = 5.0  # time for the other ranks or the launcher to exit after a rank died


def by_rank(reports: Iterable[ProcessReport]) -> dict[int, ProcessReport]:
    """Reports by rank, of a restarted rank the longest. A job without ranks is rank 0."""
    by_length = sorted(reports, key=lambda one: len(one.marks))
    ranks = {one.rank: one for one in by_length if one.rank is not None}
    return dict(sorted(ranks.items())) or dict(zip((0,), by_length[-1:], strict=False))


def find_lost_ranks(recording: Path) -> list[int]:
    """Ranks that trained and ended by an error or without a report. The lock that a rank holds on
    its file is released when it dies."""
    reported = {path.name.partition(".")[0] for path in recording.glob("*.trial.json")}
    dead = [
        path
        for path in recording.glob("*.rank")
        if path.stem not in reported and _is_lock_free(path)
    ]
    lost = {one.rank for one in read_reports(recording) if one.ended == "crashed" and one.world > 1}
    for path in dead:
        with suppress(OSError, ValueError):
            lost.add(int(path.read_text("ascii")))
    return sorted(rank for rank in lost if rank is not None)


def _is_lock_free(path: Path) -> bool:
    if fcntl is None:
        return False
    try:
        with path.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class ArmWatchdog:
    """Waits for the end of an arm, and samples its processes."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        recording: Path,
        patience_s: float,
        stock: RoomWatch,
    ) -> None:
        self.child, self.recording, self.patience_s = child, recording, patience_s
        self.stock, self.full = stock, ""
        self.tree = ProcessTree(child.pid)
        self.lost: list[int] = []
        self._looked = 0.0
        self._stop_asked_at: float | None = None
        self._lost_at: float | None = None

    def wait_for_end(self) -> int | None:
        """Return the exit status; None if the arm has to be stopped.

        That is the case after its report and a grace period (at once if only shells are left), at
        its time limit, if a rank died, or if a disk is ``full``.
        """
        begin = time.monotonic()
        while True:
            with suppress(subprocess.TimeoutExpired):
                status = self.child.wait(WAIT_S)
                self.lost = find_lost_ranks(self.recording)
                return status
            now = time.monotonic()
            self.tree.take_sample()
            self._check_progress(now)
            since = begin if self._stop_asked_at is None else None
            limits = (
                (since, self.patience_s),
                (self._stop_asked_at, GRACE_S),
                (self._lost_at, LOST_S),
            )
            if self._stop_asked_at is not None and _is_finished(self.child.pid):
                return None
            if self.full:
                return None
            if any(at is not None and now - at > seconds for at, seconds in limits):
                return None

    def _check_progress(self, now: float) -> None:
        if self._stop_asked_at is None and was_stopped(self.recording):
            self._stop_asked_at = now
        if now - self._looked <= LOOK_S:
            return
        self._looked = now
        self.full = self.stock.describe_shortage()
        if self._stop_asked_at is None:
            self.lost = find_lost_ranks(self.recording)
            self._lost_at = (self._lost_at or now) if self.lost else None


Ending = Literal["stopped", "finished", "crashed", "hung", "silent", "full"]
"""``stopped``: after the requested steps; ``silent``: successful exit without a recorded step;
``full``: stopped because its files left too little disk space"""


class ArmIsolation(Protocol):
    """Prevents an arm from overwriting or publishing anything."""

    def command(self, words: Sequence[str]) -> list[str]:
        """Wrap the command."""

    def environment(self) -> Mapping[str, str]:
        """Variables to add to its environment."""

    @property
    def places(self) -> Sequence[Path]:
        """Temporary folders that receive its writes."""


@dataclass(frozen=True, slots=True)
class ArmRequest:
    """What an arm runs with, and for how long."""

    edits: tuple[Edit, ...] = ()
    steps: int | None = None  # least number of steps
    seconds: float | None = None  # least time from the first step on
    seed: int = 0  # added to all seeds
    patience_s: float = 120.0  # time after which it counts as hung
    profile: bool = False  # diagnose it, and continue until its operators have been recorded once
    sway: int = 0
    """seed of artificial rounding noise, as large as from another order of summation; 0: none"""
    eager: bool = False  # compiled code draws the random numbers that uncompiled code would draw
    patch: SourcePatch | None = None  # run patched copies of the user's files


@dataclass(frozen=True, slots=True)
class ArmResult:
    """The result of one arm."""

    ending: Ending
    status: int | None
    seconds: float  # total duration
    recording: Path
    output_end: str  # end of its output
    report: ProcessReport | None = None  # report of the first rank; None without a recorded step
    applied: Mapping[str, int] = field(default_factory=dict)  # knob -> how often it took effect
    declined: Mapping[str, str] = field(default_factory=dict)  # knob -> why it took no effect
    made: Made = field(default_factory=dict)
    ranks: Mapping[int, ProcessReport] = field(default_factory=dict)
    lost: Sequence[int] = ()  # ranks that died and left the others waiting
    samples: Sequence[TreeSample] = ()  # memory and CPU of its processes over time
    swayed: bool = False  # artificial rounding noise was added
    full: str = ""  # the disk that had too little space left, if that ended it
    isolation: IsolationReport | None = None  # how it was isolated
    failed_at_link: bool = False  # it failed because a folder is a link in the patched copy

    @property
    def is_comparable(self) -> bool:
        """Whether its step times can be compared."""
        if self.report is None or any(one.unswayed for one in (self.report, *self.ranks.values())):
            return False
        enough = len(self.report.marks) >= FEWEST
        return enough and self.ending in ("stopped", "finished")


def run_arm(
    command: Sequence[str],
    request: ArmRequest,
    folder: Path,
    guard: ArmIsolation,
) -> ArmResult:
    """Run one arm of the user's command in ``folder`` (new, empty), isolated by ``guard``.

    Raises:
        OSError: the patched files cannot be copied.
    """
    recording = folder / "recording"
    recording.mkdir(parents=True)
    patched = _arm_place(command, request.patch, folder)
    stock, begin = RoomWatch(guard.places), time.monotonic()
    with (folder / "said.txt").open("wb") as output:
        child = subprocess.Popen(
            guard.command(patched.command),
            cwd=patched.folder,
            env={**arm_environment(request, folder, patched.environment), **guard.environment()},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        watchdog = ArmWatchdog(child, recording, request.patience_s, stock)
        try:
            with start_monitor(recording, child.pid) if request.profile else nullcontext():
                status = watchdog.wait_for_end()
        finally:
            descendants = _descendants(child.pid)
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            _end_processes(recording, descendants)
    # the last characters of its output
    text = (folder / "said.txt").read_text("utf-8", "replace")[-20_000:]
    result = _read_result(watchdog, status, time.monotonic() - begin, text)
    return replace(result, swayed=bool(request.sway), failed_at_link=patched.failed_on_link(text))


def _descendants(pid: int) -> list[psutil.Process]:
    """Living descendants of a process."""
    with suppress(psutil.Error, OSError):
        return psutil.Process(pid).children(recursive=True)
    return []


def _is_finished(pid: int) -> bool:
    """Whether only stopped shells are left, which would continue with their script."""
    with suppress(psutil.Error, OSError):
        if psutil.Process(pid).status() == psutil.STATUS_STOPPED:
            still = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
            return all(each.status() in still for each in _descendants(pid))
    return False


def _end_processes(recording: Path, descended: Sequence[psutil.Process]) -> None:
    """End all processes of an arm, and wait until they are gone.

    Launchers start ranks in sessions of their own, so processes are found by the recording in their
    environment. A process that is just starting has none yet; ``descended`` are known descendants.
    """
    until = time.monotonic() + 5.0  # a killed process frees its memory first
    left = [*descended, *_recorded_processes(recording)]
    while (
        left := [process for process in left if _is_alive(process)]
    ) and time.monotonic() < until:
        for process in left:
            with suppress(psutil.Error, OSError):
                process.kill()
        time.sleep(0.01)
        left += _recorded_processes(recording)


def _recorded_processes(recording: Path) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if _run_of(process) == str(recording)]


def _run_of(process: psutil.Process) -> str | None:
    with suppress(psutil.Error, OSError):
        return process.environ().get("WHYIDLE_RUN")
    return None


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.Error, OSError):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _arm_place(command: Sequence[str], patch: SourcePatch | None, folder: Path) -> PatchedCommand:
    here = Path.cwd()
    if patch is None:
        return PatchedCommand(tuple(command), here, {})
    tree = folder.with_name(f"{folder.name}-patched")
    tree.mkdir()
    return make_mirror(patch, command, here, tree)


def arm_environment(
    request: ArmRequest, folder: Path, place: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment with variables of the probe, the trial, the knobs and the mirror."""
    variables = {
        **os.environ,
        **WatchLimits(profile="look" if request.profile else "off").limit_variables(),
    }
    variables |= place or {}
    before = variables.get("PYTHONPATH")
    variables["PYTHONPATH"] = os.pathsep.join([str(BOOT), *([before] if before else [])])
    variables["WHYIDLE_RUN"] = str(folder / "recording")
    variables["PYTHONHASHSEED"] = str(request.seed)
    names = ("steps", "seconds", "seed", "sway", "eager", "profile")
    limits = {name: getattr(request, name) for name in names}
    variables["WHYIDLE_TRIAL"] = json.dumps(limits)
    if request.edits:
        edits = {edit.knob: edit.value for edit in request.edits}
        was = {edit.knob: edit.was for edit in request.edits}
        variables |= plan_channel.write_request(edits, was, folder / "recording")
    return variables


def _read_result(
    watchdog: ArmWatchdog, status: int | None, seconds: float, output: str
) -> ArmResult:
    recording = watchdog.recording
    reports = read_reports(recording)
    knobs = plan_channel.read_applied_knobs(recording)
    return ArmResult(
        ending=_classify_ending(watchdog, lead_report(reports), status),
        status=status,
        seconds=seconds,
        recording=recording,
        output_end=output,
        report=lead_report(reports),
        applied=knobs.applied,
        declined=knobs.declined,
        made=knobs.made,
        ranks=by_rank(reports),
        lost=watchdog.lost,
        samples=watchdog.tree.samples,
        full=watchdog.full,
    )


def _classify_ending(
    watchdog: ArmWatchdog, report: ProcessReport | None, status: int | None
) -> Ending:
    if report is not None and report.ended == "stopped":
        return "stopped"
    if watchdog.full:
        return "full"
    if watchdog.lost or status:
        return "crashed"
    if status is None:
        return "hung"
    return "finished" if report is not None else "silent"
