"""What a search knows while it runs, the same for every engine: ledger, proposals and limits."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from whyidle.engine.recording.launcher import CommandEnd
from whyidle.engine.search.command_template import FilledCommand, fill_command
from whyidle.engine.search.cost_forecast import forecast_cost
from whyidle.engine.search.ledger import (
    Ended,
    Ledger,
    Reported,
    Started,
    opened_setup,
    trials_to_retry,
)
from whyidle.engine.search.metric_reading import last_lines, suggest_patterns
from whyidle.engine.search.proposals import Proposals, replay_line
from whyidle.engine.search.trial_diagnosis import diagnose_trial
from whyidle.engine.search.trial_process import OUTPUT, RECORDING
from whyidle.engine.trial.arms.error_line import last_error_line
from whyidle.errors import TrialError
from whyidle.model.search import (
    AGAIN,
    Ending,
    Report,
    SearchSetup,
    SearchTrial,
    TrialVerdict,
)

FAILURES = 3
"""trials that fail before the search gives up, if no other has succeeded: two may be bad values"""


class SearchListener(Protocol):
    """Is informed of what happens."""

    def trial_started(self, trial: SearchTrial) -> None:
        """A trial has started."""

    def trial_reported(self, trial: SearchTrial) -> None:
        """A trial has reported its metric."""

    def trial_ended(self, trial: SearchTrial) -> None:
        """A trial has ended."""

    def tell(self, text: str) -> None:
        """Something the user should know."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """When no further trial starts: the number of trials, seconds from now, GPU-hours in all."""

    trials: int
    seconds: float | None = None
    gpu_hours: float | None = None


@dataclass(frozen=True, slots=True)
class TrialEnd:
    """How the processes of a trial ended. ``ending`` is set where the search ended it."""

    status: int
    seconds: float
    started: str
    ending: Ending | None = None
    why: str = ""
    timed_out: bool = False


class SearchState:
    """A search, new or resumed."""

    def __init__(self, ledger: Ledger, limits: SearchLimits, listener: SearchListener) -> None:
        self.setup = opened_setup(ledger)
        self.ledger, self.listener = ledger, listener
        self._limits = limits
        self._until = math.inf if limits.seconds is None else time.monotonic() + limits.seconds
        self._proposals = replayed_proposals(ledger)

    def may_start(self) -> bool:
        """Whether another trial should run."""
        if self._is_over():
            return False
        if trials_to_retry(self.ledger.trials):
            return True
        counted = [t for t in self.ledger.trials if t.ending not in AGAIN]
        return len(counted) < self._limits.trials and not self._proposals.is_exhausted

    def _is_over(self) -> bool:
        spent = sum(trial.gpu_hours or 0.0 for trial in self.ledger.trials)
        limit = self._limits.gpu_hours
        return time.monotonic() >= self._until or (limit is not None and spent >= limit)

    def start_trial(self, beside: int) -> SearchTrial:
        """Record the start of a trial, one of ``beside`` that run, and make its folder."""
        waiting = trials_to_retry(self.ledger.trials)
        values = waiting[0].values if waiting else self._proposals.propose_values()
        number = len(self.ledger.trials)
        trial_folder(self.ledger.folder, number).mkdir(parents=True, exist_ok=True)
        self.ledger.append(
            Started(
                number=number,
                values=values,
                forecast=forecast_cost(self.ledger.trials, self.setup.dimensions, values),
                retry_of=waiting[0].number if waiting else None,
                beside=beside,
            )
        )
        self._proposals.start_trial(number, values)
        self.listener.trial_started(self.ledger.trials[number])
        return self.ledger.trials[number]

    def fill_command(self, trial: SearchTrial) -> FilledCommand:
        """The command of a trial."""
        folder = trial_folder(self.ledger.folder, trial.number)
        setup = self.setup
        return fill_command(setup.command, setup.dimensions, trial.values, trial.number, folder)

    def add_report(self, number: int, report: Report) -> bool:
        """Record a value of the metric; return whether the trial falls behind."""
        self.ledger.append(Reported(number=number, report=report))
        falls_behind = self._proposals.judge_report(number, report)
        self.listener.trial_reported(self.ledger.trials[number])
        return falls_behind

    def end_trial(self, number: int, end: TrialEnd, command: FilledCommand) -> None:
        """Record the end of a trial, with what its recording says.

        Raises:
            TrialError: the metric never appears, or the command fails in every trial.
        """
        folder = trial_folder(self.ledger.folder, number)
        ending, why = end.ending, end.why
        if ending is None:
            ending, why = classify_end(end, self.ledger.trials[number], folder)
        ended = CommandEnd(end.status, end.started, end.seconds)
        verdict = diagnose_trial(folder / RECORDING, command.words, ended)
        hours = end.seconds / 3600.0 * device_count(verdict)
        self.ledger.append(
            Ended(
                number=number,
                ending=ending,
                seconds=end.seconds,
                gpu_hours=hours,
                verdict=verdict,
                why=why,
            )
        )
        trial = self.ledger.trials[number]
        self._proposals.end_trial(trial)
        self.listener.trial_ended(trial)
        check_metric(trial, self.setup, end.status, self.ledger.folder)
        check_failures(self.ledger.trials, self.ledger.folder)

    def interrupt_trial(self, number: int, seconds: float) -> None:
        """Record that the user ended a trial: it runs again on resume."""
        why = "interrupted by the user"
        self.ledger.append(Ended(number=number, ending="interrupted", seconds=seconds, why=why))


def replayed_proposals(ledger: Ledger) -> Proposals:
    """Proposals that know all that a ledger holds."""
    proposals = Proposals(opened_setup(ledger))
    trials = {trial.number: trial for trial in ledger.trials}
    for line in ledger.lines:
        number = getattr(line, "number", None)
        replay_line(proposals, line, trials.get(number) if number is not None else None)
    return proposals


def trial_folder(search: Path, number: int) -> Path:
    """The folder of a trial."""
    return search / "trials" / f"{number:04}"


def device_count(verdict: TrialVerdict | None) -> int:
    """How many GPUs a trial held; 1 where it trained on the CPU or nothing is known."""
    on_cpu = verdict is None or verdict.device == "cpu"
    return 1 if on_cpu or verdict is None else max(verdict.devices, 1)


def classify_end(end: TrialEnd, trial: SearchTrial, folder: Path) -> tuple[Ending, str]:
    """How a trial ended that nobody ended, and why."""
    if end.timed_out:
        return ("pruned" if trial.reports else "failed"), "it reached its time limit"
    if end.status:
        output = "\n".join(last_lines(folder / OUTPUT, 400))
        return "failed", last_error_line(output) or f"exit status {end.status}"
    return ("complete", "") if trial.reports else ("failed", "the metric never appeared")


def check_metric(trial: SearchTrial, setup: SearchSetup, status: int, search: Path) -> None:
    """Check after the first trial that it reported the metric.

    Raises:
        TrialError: it did not; the message shows its last lines and the numbers in them.
    """
    if trial.number or status or trial.reports or trial.ending != "failed":
        return
    output = trial_folder(search, trial.number) / OUTPUT
    lines = last_lines(output)
    patterns = suggest_patterns(last_lines(output, 40))
    shown = "\n         ".join(line[:160] for line in lines) or "(no output)"
    hint = f"whyidle tune --metric '{patterns[-1]}' ..." if patterns else "Print the metric."
    others = (
        f"\n         Patterns of the numbers in its output: {', '.join(map(repr, patterns[:8]))}."
    )
    raise TrialError(
        f"The metric {setup.metric!r} never appeared in the first trial.",
        why=f"The last lines of {output}:\n         {shown}{others if patterns else ''}",
        hint=hint,
    )


def check_failures(trials: list[SearchTrial], search: Path) -> None:
    """Check that not every trial fails.

    Raises:
        TrialError: the first three have failed.
    """
    ended = [t for t in trials if t.ending not in (*AGAIN, "running")]
    if len(ended) < FAILURES or any(trial.ending != "failed" for trial in ended):
        return
    raise TrialError(
        f"The command fails in every trial ({len(ended)} of {len(ended)}).",
        why=f"The last one: {ended[-1].why}.",
        hint=f"See {trial_folder(search, ended[-1].number) / OUTPUT}",
    )
