"""A command that is being healed: its arms, what it runs with by now, and what time is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Protocol

import msgspec

from whyidle import catalog
from whyidle.engine.diagnosis.stepless_run import DEAF_NOTE
from whyidle.engine.patching.source_patch import SourcePatch
from whyidle.engine.recording.recording_diagnosis import diagnose_recording, note_end
from whyidle.engine.trial.arms import error_line, stdin_replay
from whyidle.engine.trial.arms.arm import ArmRequest, ArmResult
from whyidle.engine.trial.arms.failure_hints import explain_failure
from whyidle.engine.trial.arms.process_report import FEWEST
from whyidle.engine.trial.executor import Executor
from whyidle.engine.trial.loop.candidates import Candidate, choose_candidates
from whyidle.engine.trial.loop.trial_result import TrialResult
from whyidle.engine.trial.statistics.alpha_spending import AlphaBudget
from whyidle.engine.trial.statistics.rare_events import RareEvent, arm_s
from whyidle.engine.trial.statistics.speedup import WARM_STEPS
from whyidle.engine.trial.statistics.startup_cost import RemainingJob
from whyidle.errors import InputError, TrialError
from whyidle.model.diagnosis import Consent, Diagnosis, Edit, RunInfo

LOOK_SHARE, LOOK_S = 0.04, (6.0, 600.0)
"""of the budget, watching once in detail; and bounds of it, s. What recurs is seen to only if it
comes twice meanwhile"""
LONGER = 4
"""times as long a second look, where the first one says nothing for sure"""
RUNGS = (0.25, 0.5, 1.0)
"""of an arm's steady part, the ends of the stretches of a race: each twice the last one"""
BEHIND = 1.1
"""times the seconds of the fastest at a rung: an arm of a race that takes more is ended"""
PAIR, LEAST_ARMS, LAST_ARMS = 2, 4, 2
"""arms of a pair; what a trial takes: two pairs; and so many are kept back for the end"""
OVER = 0.25
"""of the budget, by which it may be passed for runs that say whether anything is handed over"""
LEAST_S = 0.5
"""of steps: a job that is through with them sooner cannot be timed"""
PATIENCE = 4.0
"""an arm that takes so many times as long as the first one is ended"""
SLOWER = 3.0
"""and so many times more where it runs for its numbers only"""
NOT_RUN = (126, 127)
"""statuses by which a shell says that it found no command"""
LINE = 200
"""characters of what it printed last"""
SLACK_S = 30.0
"""and so much longer"""


UNSTORED = "unstored"
"""the id of a run until a store gives it one"""


class ProgressListener(Protocol):
    """Who is told how far it is."""

    def show_stage(self, text: str) -> None:
        """What is being done now."""

    def show_watched_job(self, diagnosis: Diagnosis, ready: Sequence[Candidate]) -> None:
        """It has been watched: how it is, and what will be tried."""

    def show_trial_result(self, judgement: TrialResult) -> None:
        """A trial has ended."""


@dataclass(slots=True)
class TrialSession:
    """A command being healed. ``arm_s`` is what an arm of it, as it is by now, takes altogether, of
    it ``seconds`` from the first step on."""

    command: Sequence[str]
    folder: Path
    engine: Executor
    budget_s: float
    allowed: Collection[Consent]
    voice: ProgressListener
    begun: float = field(default_factory=time.monotonic)
    arms: int = 0
    judged: list[TrialResult] = field(default_factory=list)
    purse: AlphaBudget = field(default_factory=AlphaBudget)
    left: RemainingJob | None = None
    """what of the job is still to run, where that is known"""
    recurs: list[RareEvent] = field(default_factory=list)
    """what is to be held by arms, of all that was seen so far: they stay as long"""
    seconds: float = 0.0
    arm_s: float = 0.0

    @property
    def kept_candidates(self) -> list[Candidate]:
        """What it runs with by now."""
        return [one.candidate for one in self.judged if one.kept]

    @property
    def spent_s(self) -> float:
        """What it took so far."""
        return time.monotonic() - self.begun

    @property
    def left_s(self) -> float:
        """What is left of the budget."""
        return self.budget_s - self.spent_s

    @property
    def over_s(self) -> float:
        """The same where it may be passed a little."""
        return self.left_s + OVER * self.budget_s

    def arm_at(self, budget_s: float) -> float:
        """What an arm would take with another budget."""
        return self.arm_s - self.seconds + arm_s(budget_s, self.recurs)

    def can_afford(self, arms: int) -> bool:
        """Whether there is time for so many arms."""
        return self.left_s > arms * self.arm_s

    def merged_edits(self, *more: Candidate) -> tuple[Edit, ...]:
        """Of what is kept, and more; a knob that is turned twice is as the last one has it, and
        was what it was in the script."""
        found: dict[str, Edit] = {}
        for edit in (edit for one in (*self.kept_candidates, *more) for edit in one.edits):
            was = found[edit.knob].was if edit.knob in found else edit.was
            found[edit.knob] = msgspec.structs.replace(edit, was=was)
        return tuple(found.values())

    def changes_anything(self, one: Candidate) -> bool:
        """Whether it would turn anything that is not so by now: what a fix does may be seen as the
        script's own doing, and the fix for that be the same again."""
        now = {edit.knob: edit.value for edit in self.merged_edits()}
        return any(len(edit.among) > 1 or now.get(edit.knob) != edit.value for edit in one.edits)

    def run_arm(self, asked: ArmRequest) -> ArmResult:
        """One arm."""
        return self.engine.run_arm(asked, self._new_folder())

    def _new_folder(self) -> Path:
        """A new folder for an arm."""
        self.arms += 1
        folder = self.folder / f"arm-{self.arms:03}"
        folder.mkdir(parents=True)
        return folder

    def run_trial_arm(
        self, edits: tuple[Edit, ...], *, seed: int = 0, patch: SourcePatch | None = None
    ) -> ArmResult:
        """An arm whose steps are compared."""
        patience_s = self._compile_patience(
            self.merged_edits() if patch else edits, self.patience_s
        )
        return self.run_arm(ArmRequest(edits, FEWEST, self.seconds, seed, patience_s, patch=patch))

    def run_numeric_arm(self, edits: tuple[Edit, ...], steps: int, **named: Any) -> ArmResult:
        """An arm of so many steps, for its numbers only: it is slower. ``named`` is what else is
        asked of it (`ArmRequest`)."""
        patience_s = self._compile_patience(edits, SLOWER * self.patience_s)
        return self.run_arm(ArmRequest(edits, steps, patience_s=patience_s, **named))

    def run_to_step(self, edits: tuple[Edit, ...], steps: int, usual: int) -> ArmResult | None:
        """The same, of which an arm makes the ``usual`` number; None where there is no time."""
        enough = self.left_s > steps / max(usual, 1) * self.arm_s
        return self.run_numeric_arm(edits, steps) if enough else None

    def _compile_patience(self, edits: Sequence[Edit], patience_s: float) -> float:
        """The patience with these: compiling takes as long as it takes, and an arm that was timed
        without it says nothing of that."""
        timed = {edit.knob for edit in self.merged_edits()}
        compiles = any(catalog.find_knob(e.knob).compiles and e.knob not in timed for e in edits)
        return max(patience_s, self.left_s) if compiles else patience_s

    def race_values(self, entries: Sequence[tuple[Edit, ...]]) -> list[ArmResult]:
        """Arms that differ in the number of one knob, one after another, to learn which is fastest:
        one that falls behind the fastest at a rung is ended there."""
        rungs = tuple(part * self.seconds for part in RUNGS)
        every = ArmRequest((), FEWEST, self.seconds, rungs=rungs)
        sized = (
            len(
                {
                    e.value
                    for edits in entries
                    for e in edits
                    if catalog.find_knob(e.knob).per_sample
                }
            )
            > 1
        )
        asked = [
            replace(
                every,
                edits=edits,
                patience_s=self._compile_patience(edits, self.patience_s),
                per_sample=sized,
            )
            for edits in entries
        ]
        rans: list[ArmResult] = []
        fastest: dict[int, float] = {}
        for one in asked:
            slowest = {number: BEHIND * each for number, each in fastest.items()}
            rans.append(self.engine.run_arm(one, self._new_folder(), slowest))
            for number, each in rans[-1].rungs.items() if rans[-1].is_comparable else ():
                fastest[number] = min(each, fastest.get(number, each))
        return rans

    @property
    def patience_s(self) -> float:
        """After so long an arm hangs."""
        return PATIENCE * self.arm_s + SLACK_S

    def alike_times(self, but: TrialResult | None = None) -> Iterator[Sequence[float]]:
        """Times of arms that were the same among themselves, those of one trial left out."""
        for one in (one for one in self.judged if one is not but):
            yield from (group for group in (one.base_s, one.treated_s) if len(group) > 1)


def watch_job(
    healing: TrialSession,
    times: int = 1,
    diagnose: Callable[[Path], Diagnosis] = diagnose_recording,
) -> Diagnosis:
    """Watch it in detail, as it is by now, so many ``times`` as long as is usual, ``diagnose`` its
    recording, and settle how many steps make an arm.

    Raises:
        TrialError: it does not run, or shows too few steps.
    """
    seconds = times * clamp(LOOK_SHARE * healing.budget_s, LOOK_S)
    patience_s = max(healing.budget_s / 2, 60.0)
    asked = ArmRequest(healing.merged_edits(), FEWEST, seconds, patience_s=patience_s, profile=True)
    ran = healing.run_arm(asked)
    over = datetime.now(timezone.utc)
    _must_run(ran)
    _must_train(ran)
    note_end(ran.recording, UNSTORED, healing.command, None)
    try:
        found = diagnose(ran.recording)
    except InputError as error:
        raise TrialError("The job cannot be diagnosed.", why=error.why, hint=error.hint) from error
    ready, _ = choose_candidates(found, healing.allowed)
    healing.recurs += [one.rare for one in ready if one.rare is not None]
    _settle_arm_length(healing, ran)
    return msgspec.structs.replace(found, run=_watched_run_info(found.run, ran, over))


def _watched_run_info(run: RunInfo, ran: ArmResult, over: datetime) -> RunInfo:
    """With when and how long it was watched, and how it ended, if by itself."""
    begun = over - timedelta(seconds=ran.seconds)
    return msgspec.structs.replace(
        run,
        started=begun.isoformat(timespec="seconds"),
        duration_s=ran.seconds,
        exit_status=ran.status if ran.ending == "finished" else None,
    )


def _must_train(ran: ArmResult) -> None:
    """Raises TrialError where too little is trained to be compared."""
    told = ran.told
    count = len(told.marks) if told else 0
    if told is None or count < FEWEST:
        raise TrialError(
            f"Only {count} training step{'s were' if count != 1 else ' was'} seen.",
            why=f"With fewer than {FEWEST} a gain cannot be told from chance.",
            hint="Have the script train longer: more data, more epochs.",
        )
    whole_s = (told.marks[-1] - told.marks[0]) / 1e9
    if whole_s < LEAST_S:
        raise TrialError(
            f"The job trains for {whole_s * 1e3:.0f} ms only.",
            why="So short a time cannot be compared.",
            hint="Have the script train longer: more data, more epochs.",
        )


def _settle_arm_length(healing: TrialSession, ran: ArmResult) -> None:
    """Settle how long an arm is, by what the look took beside its steps."""
    told = ran.told
    if told is None:
        return
    count, whole_s = len(told.marks), (told.marks[-1] - told.marks[0]) / 1e9
    since = told.drained[0][1] if told.drained else told.marks[WARM_STEPS]
    steady_s = (told.marks[-1] - since) / 1e9
    each_s = min(steady_s / max(count - 1 - WARM_STEPS, 1), whole_s / (count - 1))
    before_s = max(whole_s - steady_s - WARM_STEPS * each_s, 0.0)  # as compiling takes
    healing.seconds = arm_s(healing.budget_s, healing.recurs)
    healing.arm_s = ran.seconds - whole_s + before_s + max(healing.seconds, FEWEST * each_s)


def clamp(value: float, bounds: tuple[float, float]) -> float:
    """The value, or the bound that it passes."""
    return max(bounds[0], min(value, bounds[1]))


def _must_run(ran: ArmResult) -> None:
    """Raises TrialError where the job itself does not. Too few steps are another matter."""
    if ran.told is not None and ran.ending in ("stopped", "finished"):
        return
    last = error_line.last_error_line(ran.said) or "it printed nothing"
    missing = "No such file" in last and "Traceback" not in ran.said
    if ran.status in NOT_RUN or missing:
        raise TrialError("The command cannot be run.", why=f"{last}.", hint="Check the command.")
    steps = len(ran.told.marks) if ran.told else 0
    made = f" after {steps} step{'s' if steps != 1 else ''}"
    if ran.ending == "silent":
        _had_no_input("The command does not train", "It ended well")
        raise TrialError(
            "The command does not train.",
            why="It ended well, but no optimizer's step was seen in it.",
            hint="whyidle run COMMAND says what can be said of it.",
        )
    if ran.ending == "full":
        raise TrialError(
            "The command was ended: it writes more than there is room for.",
            why=f"{ran.full[0].upper()}{ran.full[1:]}. Of a file that is opened for writing, as "
            "np.memmap and LMDB do unless told otherwise, that is all.",
            hint="A folder with more room: TMPDIR=FOLDER whyidle fix COMMAND",
        )
    if ran.ending == "hung":
        seen = (
            "In that time it trains too little" if steps else "No optimizer's step was seen in it"
        )
        deaf = "" if steps else f" If it does: {DEAF_NOTE}."
        raise TrialError(
            f"The command was ended{made}, {ran.seconds:.0f} s after its start.",
            why=f"{seen}. It had printed: {last[:LINE]}",
            hint=f"Does it train without whyidle? More time: --budget 20m.{deaf}",
        )
    if last.startswith("EOFError"):
        _had_no_input("The command fails", f"It ended with {last[:LINE]}")
    told = ":" if "Traceback" in ran.said else ". It printed last:"
    why, hint = explain_failure(last, ran.status, ran.behind)
    at = error_line.error_place(ran.said, Path.cwd())
    raise TrialError(
        f"The command fails{made if steps else ''}{f' in {at}' if at else ''}{told} {last[:LINE]}",
        why=why,
        hint=hint,
    )


def _had_no_input(what: str, how: str) -> None:
    """Raises TrialError where the command may have wanted input that cannot be had again."""
    ways = {"pipe": "what comes through a pipe", "typed": "what is typed"}
    if (way := ways.get(stdin_replay.stdin_kind())) is not None:
        raise TrialError(
            f"{what} without its standard input.",
            why=f"{how}, and no optimizer's step was seen. Trials run it several times, and {way} "
            "can be read only once, so they get nothing.",
            hint="If it reads its standard input, give it as a file: whyidle fix COMMAND < FILE. "
            "Otherwise whyidle run COMMAND says what can be said of it.",
        )
