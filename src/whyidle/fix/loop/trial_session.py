"""A session of ``whyidle fix``: the command, its arms, the kept fixes and the time budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Protocol

import msgspec

from whyidle import catalog
from whyidle.diagnosis.stepless_run import DEAF_NOTE
from whyidle.errors import InputError, TrialError, UndiagnosedError
from whyidle.fix.arms import error_line
from whyidle.fix.arms.arm import ArmRequest, ArmResult
from whyidle.fix.arms.failure_hints import explain_failure
from whyidle.fix.arms.process_report import FEWEST
from whyidle.fix.executor import Executor
from whyidle.fix.loop.candidates import Candidate
from whyidle.fix.loop.trial_result import TrialResult
from whyidle.fix.patching.source_patch import SourcePatch
from whyidle.fix.statistics.alpha_spending import AlphaBudget
from whyidle.fix.statistics.speedup import WARM_STEPS
from whyidle.fix.statistics.startup_cost import RemainingJob
from whyidle.model.diagnosis import Consent, Diagnosis, Edit, RunInfo
from whyidle.record.recording_diagnosis import diagnose_recording, note_end, notes_on_faults

LOOK_SHARE, LOOK_S = 0.04, (6.0, 600.0)
"""duration of a diagnosis as a share of the budget, and its bounds, s"""
LONGER = 4  # factor of the duration of a second diagnosis, after an inconclusive one
ARM_SHARE, ARM_S = 0.025, (3.0, 20.0)
"""steady part of an arm as a share of the budget, and its bounds, s: beyond them, more arms are
more useful than longer ones"""
PAIR, LEAST_ARMS, LAST_ARMS = 2, 4, 2
"""arms of a pair, arms that a trial needs, and arms reserved for the final checks"""
OVER = 0.25  # share by which the budget may be exceeded for decisive runs
LEAST_S = 0.5  # least total time of the steps for a comparison
PATIENCE = 4.0  # time limit of an arm, relative to the first one
SLOWER = 3.0  # further factor for arms that only check numbers
NOT_RUN = (126, 127)  # statuses of a shell that found no command
LINE = 200  # characters of an error message
SLACK_S = 30.0  # added to the time limit of an arm


UNSTORED = "unstored"  # id of a run that is not stored


class ProgressListener(Protocol):
    """Receives progress."""

    def show_stage(self, text: str) -> None:
        """Show the current activity."""

    def show_watched_job(self, diagnosis: Diagnosis, ready: Sequence[Candidate]) -> None:
        """Show the first diagnosis and the fixes to try."""

    def show_trial_result(self, judgement: TrialResult) -> None:
        """Show the result of a trial."""


@dataclass(slots=True)
class TrialSession:
    """The state of a session."""

    command: Sequence[str]
    folder: Path
    executor: Executor
    budget_s: float
    allowed: Collection[Consent]
    listener: ProgressListener
    begun: float = field(default_factory=time.monotonic)
    arms: int = 0
    judged: list[TrialResult] = field(default_factory=list)
    alpha_budget: AlphaBudget = field(default_factory=AlphaBudget)
    remaining_job: RemainingJob | None = None  # the remaining job, if known
    seconds: float = 0.0  # duration of an arm from its first step on
    arm_s: float = 0.0  # total duration of an arm

    @property
    def kept_candidates(self) -> list[Candidate]:
        """The kept fixes."""
        return [one.candidate for one in self.judged if one.kept]

    @property
    def spent_s(self) -> float:
        """Time used so far."""
        return time.monotonic() - self.begun

    @property
    def left_s(self) -> float:
        """Remaining budget."""
        return self.budget_s - self.spent_s

    @property
    def over_s(self) -> float:
        """Remaining budget with its tolerance."""
        return self.left_s + OVER * self.budget_s

    def arm_at(self, budget_s: float) -> float:
        """Duration of an arm with another budget."""
        return self.arm_s - self.seconds + arm_length_s(budget_s)

    def can_afford(self, arms: int) -> bool:
        """Whether there is time for further arms."""
        return self.left_s > arms * self.arm_s

    def merged_edits(self, *more: Candidate) -> tuple[Edit, ...]:
        """Merge edits of kept fixes and ``more``: last values, ``was`` from the script."""
        edits: dict[str, Edit] = {}
        for edit in (edit for one in (*self.kept_candidates, *more) for edit in one.edits):
            was = edits[edit.knob].was if edit.knob in edits else edit.was
            edits[edit.knob] = msgspec.structs.replace(edit, was=was)
        return tuple(edits.values())

    def changes_anything(self, one: Candidate) -> bool:
        """Whether a fix changes any knob: a diagnosis may propose an edit that is already kept."""
        now = {edit.knob: edit.value for edit in self.merged_edits()}
        return any(len(edit.among) > 1 or now.get(edit.knob) != edit.value for edit in one.edits)

    def run_arm(self, request: ArmRequest) -> ArmResult:
        """Run an arm."""
        return self.executor.run_arm(request, self._new_folder())

    def _new_folder(self) -> Path:
        self.arms += 1
        folder = self.folder / f"arm-{self.arms:03}"
        folder.mkdir(parents=True)
        return folder

    def run_trial_arm(
        self, edits: tuple[Edit, ...], *, seed: int = 0, patch: SourcePatch | None = None
    ) -> ArmResult:
        """Run an arm whose step times are compared."""
        patience_s = self._compile_patience(
            self.merged_edits() if patch else edits, self.patience_s
        )
        return self.run_arm(ArmRequest(edits, FEWEST, self.seconds, seed, patience_s, patch=patch))

    def run_numeric_arm(self, edits: tuple[Edit, ...], steps: int, **named: Any) -> ArmResult:
        """Run an arm for its losses; ``named`` are further fields of `ArmRequest`."""
        patience_s = self._compile_patience(edits, SLOWER * self.patience_s)
        return self.run_arm(ArmRequest(edits, steps, patience_s=patience_s, **named))

    def run_to_step(self, edits: tuple[Edit, ...], steps: int, usual: int) -> ArmResult | None:
        """Run an arm of ``steps`` steps, given the number of a ``usual`` arm; None without time."""
        enough = self.left_s > steps / max(usual, 1) * self.arm_s
        return self.run_numeric_arm(edits, steps) if enough else None

    def _compile_patience(self, edits: Sequence[Edit], patience_s: float) -> float:
        """Time limit with these edits: one that compiles may use the remaining budget."""
        timed = {edit.knob for edit in self.merged_edits()}
        compiles = any(catalog.find_knob(e.knob).compiles and e.knob not in timed for e in edits)
        return max(patience_s, self.left_s) if compiles else patience_s

    @property
    def patience_s(self) -> float:
        """Time after which an arm counts as hung."""
        return PATIENCE * self.arm_s + SLACK_S

    def alike_times(self, but: TrialResult | None = None) -> Iterator[Sequence[float]]:
        """Times of groups of equal arms, without those of the trial ``but``."""
        for one in (one for one in self.judged if one is not but):
            yield from (group for group in (one.base_s, one.treated_s) if len(group) > 1)


def watch_job(
    session: TrialSession,
    times: int = 1,
    diagnose: Callable[[Path], Diagnosis] = diagnose_recording,
) -> Diagnosis:
    """Diagnose the job with the kept fixes for ``times`` the usual duration, and set that of arms.
    Whether it trains long enough is judged without fixes: a fast fix makes any job short.

    Raises:
        TrialError: the job fails, or takes too few steps.
        UndiagnosedError: the job with the kept fixes runs, but cannot be diagnosed.
    """
    seconds = times * clamp(LOOK_SHARE * session.budget_s, LOOK_S)
    patience_s = max(session.budget_s / 2, 60.0)
    asked = ArmRequest(session.merged_edits(), FEWEST, seconds, patience_s=patience_s, profile=True)
    result = session.run_arm(asked)
    ended = datetime.now(timezone.utc)
    _must_run(result)
    if not session.kept_candidates:
        _must_train(result)
    note_end(result.recording, UNSTORED, session.command, None)
    try:
        diagnosis = diagnose(result.recording)
    except InputError as error:
        kind = UndiagnosedError if session.kept_candidates else TrialError
        raise kind("The job cannot be diagnosed.", why=error.why, hint=error.hint) from error
    _settle_arm_length(session, result)
    return msgspec.structs.replace(diagnosis, run=_watched_run_info(diagnosis.run, result, ended))


def _watched_run_info(run: RunInfo, result: ArmResult, ended: datetime) -> RunInfo:
    begun = ended - timedelta(seconds=result.seconds)
    return msgspec.structs.replace(
        run,
        started=begun.isoformat(timespec="seconds"),
        duration_s=result.seconds,
        exit_status=result.status if result.ending == "finished" else None,
    )


def _must_train(result: ArmResult) -> None:
    report = result.report
    count = len(report.marks) if report else 0
    if report is None or count < FEWEST:
        raise TrialError(
            f"Only {count} training step{'s were' if count != 1 else ' was'} recorded.",
            why=f"A gain cannot be proven with fewer than {FEWEST} steps.",
            hint="Train longer, with more data or epochs.",
        )
    whole_s = (report.marks[-1] - report.marks[0]) / 1e9
    if whole_s < LEAST_S:
        raise TrialError(
            f"The job trains for only {whole_s * 1e3:.0f} ms.",
            why="This is too short for a comparison.",
            hint="Train longer, with more data or epochs.",
        )


def _settle_arm_length(session: TrialSession, result: ArmResult) -> None:
    report = result.report
    if report is None or len(report.marks) <= WARM_STEPS + 1:
        return
    count, whole_s = len(report.marks), (report.marks[-1] - report.marks[0]) / 1e9
    since = report.drained[0][1] if report.drained else report.marks[WARM_STEPS]
    steady_s = (report.marks[-1] - since) / 1e9
    each_s = min(steady_s / max(count - 1 - WARM_STEPS, 1), whole_s / (count - 1))
    before_s = max(whole_s - steady_s - WARM_STEPS * each_s, 0.0)  # as compiling takes
    session.seconds = arm_length_s(session.budget_s)
    session.arm_s = result.seconds - whole_s + before_s + max(session.seconds, FEWEST * each_s)


def arm_length_s(budget_s: float) -> float:
    """Steady part of an arm, s: a share of the budget within bounds."""
    return clamp(ARM_SHARE * budget_s, ARM_S)


def clamp(value: float, bounds: tuple[float, float]) -> float:
    """Limit a value to bounds."""
    return max(bounds[0], min(value, bounds[1]))


def _must_run(result: ArmResult) -> None:
    if result.report is not None and result.ending in ("stopped", "finished"):
        return
    error = error_line.last_error_line(result.output_end) or "it printed nothing"
    missing = "No such file" in error and "Traceback" not in result.output_end
    if result.status in NOT_RUN or missing:
        raise TrialError("The command cannot be run.", why=f"{error}.", hint="Check the command.")
    steps = len(result.report.marks) if result.report else 0
    progress = f" after {steps} step{'s' if steps != 1 else ''}"
    if result.ending == "silent":
        if faults := notes_on_faults(result.recording):
            raise TrialError(
                "The steps of the command could not be observed.",
                why=" ".join(faults),
                hint="This is a bug in whyidle: report it with this message.",
            )
        raise TrialError(
            "The command does not train.",
            why="It ended successfully, but took no optimizer step. In trials the standard input "
            "is empty.",
            hint="To diagnose it anyway: whyidle run COMMAND",
        )
    if result.ending == "full":
        raise TrialError(
            "The command was stopped because its files fill the disk.",
            why=f"{result.full[0].upper()}{result.full[1:]}. A file opened for writing is copied "
            f"completely; np.memmap and LMDB open files that way by default.",
            hint="Use a folder with more space: TMPDIR=FOLDER whyidle fix COMMAND",
        )
    if result.ending == "hung":
        problem = "It took too few steps" if steps else "It took no optimizer step"
        hint_probe = "" if steps else f" If it does: {DEAF_NOTE}."
        raise TrialError(
            f"The command was stopped{progress}, {result.seconds:.0f} s after its start.",
            why=f"{problem}. Its last output: {error[:LINE]}",
            hint=f"Does it train without whyidle? For more time: --budget 20m.{hint_probe}",
        )
    separator = ":" if "Traceback" in result.output_end else ". Its last output:"
    why, hint = explain_failure(error, result.status, result.isolation)
    at = error_line.error_place(result.output_end, Path.cwd())
    where = f" in {at}" if at else ""
    raise TrialError(
        f"The command fails{progress if steps else ''}{where}{separator} {error[:LINE]}",
        why=why,
        hint=hint,
    )
