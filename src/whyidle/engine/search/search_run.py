"""Runs a search on this machine: starts trials, reads their metric, ends those that fall behind."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
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
from whyidle.engine.search.trial_process import OUTPUT, RECORDING, TrialProcess, TrialTerms
from whyidle.engine.trial.arms.error_line import last_error_line
from whyidle.errors import TrialError
from whyidle.model.search import (
    AGAIN,
    Ending,
    SearchSetup,
    SearchTrial,
    TrialVerdict,
    Values,
)

FAILURES = 3
"""trials that fail before the search gives up, if no other has succeeded: two may be bad values"""
SHORT_S, LONG_S = 0.02, 0.1
"""time between looks at the trials, in their first two seconds and later"""


class SearchListener(Protocol):
    """Is told what happens."""

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


@dataclass(slots=True)
class _Running:
    process: TrialProcess
    command: FilledCommand
    started: datetime
    ending: Ending | None = None
    why: str = ""


class SearchRun:
    """One search, new or resumed."""

    def __init__(
        self,
        ledger: Ledger,
        terms: TrialTerms,
        limits: SearchLimits,
        listener: SearchListener,
        room: Callable[[Ledger], int] = lambda _: 1,
    ) -> None:
        setup = opened_setup(ledger)
        self._ledger, self._setup, self._terms = ledger, setup, terms
        self._limits, self._listener, self._room = limits, listener, room
        self._until = math.inf if limits.seconds is None else time.monotonic() + limits.seconds
        self._running: dict[int, _Running] = {}
        self._proposals = replayed_proposals(ledger)

    def run_trials(self) -> None:
        """Run trials until a limit is reached.

        Raises:
            TrialError: the metric never appears, or the command fails in every trial.
            OutputError: the ledger cannot be written.
            KeyboardInterrupt: all trials have been ended.
        """
        try:
            while self._running or self._may_start():
                while self._may_start() and len(self._running) < self._room(self._ledger):
                    self._start_trial()
                for number in list(self._running):
                    self._look_at(number)
                young = any(each.process.seconds < 2.0 for each in self._running.values())
                time.sleep(SHORT_S if young else LONG_S)
        except BaseException as error:
            self._end_all("interrupted by the user" if isinstance(error, KeyboardInterrupt) else "")
            raise

    def _may_start(self) -> bool:
        waiting = trials_to_retry(self._ledger.trials)
        if waiting and not self._is_over():
            return True
        counted = [t for t in self._ledger.trials if t.ending not in AGAIN]
        return (
            len(counted) < self._limits.trials
            and not self._proposals.is_exhausted
            and not self._is_over()
        )

    def _is_over(self) -> bool:
        spent = sum(trial.gpu_hours or 0.0 for trial in self._ledger.trials)
        limit = self._limits.gpu_hours
        return time.monotonic() >= self._until or (limit is not None and spent >= limit)

    def _start_trial(self) -> None:
        waiting = trials_to_retry(self._ledger.trials)
        values = waiting[0].values if waiting else self._proposals.propose_values()
        retry_of = waiting[0].number if waiting else None
        number = len(self._ledger.trials)
        folder = trial_folder(self._ledger.folder, number)
        folder.mkdir(parents=True, exist_ok=True)
        self._ledger.append(self._started_line(number, values, retry_of))
        self._proposals.start_trial(number, values)
        command = fill_command(self._setup.command, self._setup.dimensions, values, number, folder)
        process = TrialProcess(command, folder, self._terms)
        self._running[number] = _Running(process, command, datetime.now(timezone.utc))
        self._listener.trial_started(self._ledger.trials[number])

    def _started_line(self, number: int, values: Values, retry_of: int | None) -> Started:
        forecast = forecast_cost(self._ledger.trials, self._setup.dimensions, values)
        beside = len(self._running) + 1
        return Started(
            number=number, values=values, forecast=forecast, retry_of=retry_of, beside=beside
        )

    def _look_at(self, number: int) -> None:
        running = self._running[number]
        status = running.process.poll_status()
        for report in running.process.read_reports():
            if running.ending is not None:
                break
            self._ledger.append(Reported(number=number, report=report))
            falls_behind = self._proposals.judge_report(number, report)
            if not math.isfinite(report.value):
                running.ending, running.why = "failed", f"the metric became {report.value}"
            elif falls_behind and status is None:
                running.ending = "pruned"
            if running.ending is not None:
                running.process.end_processes()
            self._listener.trial_reported(self._ledger.trials[number])
        if status is not None:
            self._finish_trial(number, status)

    def _finish_trial(self, number: int, status: int) -> None:
        running = self._running.pop(number)
        trial = self._ledger.trials[number]
        ending, why = classify_end(running.process, trial, status)
        if running.ending is not None:
            ending, why = running.ending, running.why
        self._record_end(number, running, ending, why, status)
        trial = self._ledger.trials[number]
        self._proposals.end_trial(trial)
        self._listener.trial_ended(trial)
        self._check_progress(trial, status)

    def _record_end(
        self, number: int, running: _Running, ending: Ending, why: str, status: int
    ) -> None:
        process = running.process
        seconds = process.seconds
        ended = CommandEnd(status, running.started.isoformat(timespec="seconds"), seconds)
        verdict = diagnose_trial(process.folder / RECORDING, running.command.words, ended)
        self._ledger.append(
            Ended(
                number=number,
                ending=ending,
                seconds=seconds,
                gpu_hours=seconds / 3600.0 * device_count(verdict),
                verdict=verdict,
                why=why,
            )
        )

    def _check_progress(self, trial: SearchTrial, status: int) -> None:
        check_metric(trial, self._setup, status, self._ledger.folder)
        check_failures(self._ledger.trials, self._ledger.folder)

    def _end_all(self, why: str) -> None:
        """End all trials; with a reason their ends are recorded, so that they run again."""
        for running in self._running.values():
            running.process.end_processes()
        for number, running in self._running.items():
            running.process.wait_for_end()
            if why:
                seconds = running.process.seconds
                line = Ended(number=number, ending="interrupted", seconds=seconds, why=why)
                self._ledger.append(line)


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


def classify_end(process: TrialProcess, trial: SearchTrial, status: int) -> tuple[Ending, str]:
    """How a trial ended that nobody ended, and why."""
    if process.timed_out:
        return ("pruned" if trial.reports else "failed"), "it reached its time limit"
    if status:
        output = "\n".join(last_lines(process.folder / OUTPUT, 400))
        return "failed", last_error_line(output) or f"exit status {status}"
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
