"""Runs the trials of a study on this machine: starts their processes, reads their metric, ends
those that fall behind, and says why their devices waited."""

from __future__ import annotations

import math
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

import msgspec

from whyidle.errors import TrialError
from whyidle.fix.arms.error_line import last_error_line
from whyidle.model.documents.search import (
    AGAIN,
    Ending,
    Report,
    SearchTrial,
    TrialVerdict,
    metric_of,
)
from whyidle.planning.search import study as studies
from whyidle.planning.search.command_template import FilledCommand, fill_command
from whyidle.planning.search.metric_reading import last_lines
from whyidle.planning.search.trial_diagnosis import diagnose_trial
from whyidle.planning.search.trial_process import OUTPUT, RECORDING, TrialProcess, TrialTerms
from whyidle.record.launcher import CommandEnd

FAILURES = 3
"""trials that fail before the search gives up, if no other has succeeded: two may be bad values"""
SHORT_S, LONG_S = 0.02, 0.1
"""time between looks at a trial, in its first two seconds and later"""


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


class _UnfinishedError(Exception):
    """Tells Optuna that a trial has no result; what happened is in its record."""


class SearchRun:
    """Runs trials of a search, each as a process of this one."""

    def __init__(
        self, folder: Path, search: studies.SearchFile, terms: TrialTerms, listener: SearchListener
    ) -> None:
        self.study = studies.open_study(search)
        self._folder, self._search, self._setup = folder, search, search.setup
        self._terms, self._listener = terms, listener
        self._stop = threading.Event()
        self._interrupted = False
        self._running = 0

    def run_trials(self, most_s: float | None) -> None:
        """Run trials until there are enough, and start none after ``most_s`` seconds.

        Raises:
            TrialError: the metric never appears, or the command fails in every trial.
            KeyboardInterrupt: all trials have been ended.
        """
        if lost := studies.requeue_lost(self.study):
            numbers = ", ".join(map(str, lost))
            self._listener.tell(f"run again, since they were cut off: trial {numbers}")
        limit = min(self._search.trials, studies.count_points(self._setup))
        left = limit - self._count_trials()
        with self._heed_interrupts(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is experimental, and steps reported twice
            if left > 0:
                self.study.optimize(
                    self._run_trial,
                    n_trials=int(left),
                    timeout=most_s,
                    n_jobs=self._search.parallel,
                    catch=(_UnfinishedError,),
                    callbacks=[lambda *_: self._check_count(limit)],
                )
        if self._interrupted:
            raise KeyboardInterrupt

    def _count_trials(self) -> int:
        return sum(trial.ending not in AGAIN for trial in studies.read_trials(self.study))

    def _check_count(self, limit: float) -> None:
        """Other processes may run trials of the study, too."""
        if self._stop.is_set() or self._count_trials() >= limit:
            self.study.stop()

    @contextmanager
    def _heed_interrupts(self) -> Iterator[None]:
        """Ctrl-C ends all trials cleanly; they run again on resume."""

        def note_interrupt(*_: Any) -> None:
            self._interrupted = True
            self._stop.set()

        before = signal.signal(signal.SIGINT, note_interrupt)
        try:
            yield
        finally:
            self._stop.set()
            signal.signal(signal.SIGINT, before)

    def _run_trial(self, asked: Any) -> float:
        """The objective of the study."""
        if self._stop.is_set():
            asked.study.stop()
            raise _UnfinishedError
        asked.set_user_attr(studies.DRIVER, studies.driver_mark())
        self._running += 1
        try:
            trial = self._start_trial(asked)
            folder = trial_folder(self._folder, trial.number)
            setup = self._setup
            command = fill_command(
                setup.command, setup.dimensions, trial.values, trial.number, folder
            )
            trial, status = self._follow_trial(asked, trial, command)
            self._listener.trial_ended(trial)
            self._check_trial(trial, status)
        except TrialError:
            self._stop.set()
            raise
        finally:
            self._running -= 1
        return self._tell_result(trial)

    def _start_trial(self, asked: Any) -> SearchTrial:
        trial = SearchTrial(
            number=asked.number,
            values=studies.suggest_values(asked, self._setup),
            ending="running",
            retry_of=asked.user_attrs.get(studies.RETRY_OF),
            beside=self._running,
        )
        trial_folder(self._folder, trial.number).mkdir(parents=True, exist_ok=True)
        self._listener.trial_started(trial)
        return trial

    def _follow_trial(
        self, asked: Any, trial: SearchTrial, command: FilledCommand
    ) -> tuple[SearchTrial, int]:
        """Run the process of a trial; its record, which Optuna keeps, and its status."""
        folder = trial_folder(self._folder, trial.number)
        started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        process = TrialProcess(command, folder, self._terms)
        ending: Ending | None = None
        why, status = "", None
        try:
            while status is None:
                status = process.poll_status()
                for report in process.read_reports():
                    trial.reports.append(report)
                    self._listener.trial_reported(trial)
                    if ending is None and not math.isfinite(report.value):
                        ending, why = "failed", f"the metric became {report.value}"
                    elif ending is None and self._falls_behind(asked, report) and status is None:
                        ending = "pruned"
                if self._stop.is_set() and ending is None and status is None:
                    ending, why = "interrupted", "the search was ended"
                if ending is not None:
                    process.end_processes()
                time.sleep(SHORT_S if process.seconds < 2.0 else LONG_S)
        finally:
            process.end_processes()
            process.wait_for_end()
        if ending is None:
            ending, why = _classify_end(status, trial, folder)
        ended = CommandEnd(status, started, process.seconds)
        verdict = diagnose_trial(folder / RECORDING, command.words, ended)
        trial = msgspec.structs.replace(
            trial,
            ending=ending,
            why=why,
            metric=metric_of(trial.reports, self._setup),
            seconds=process.seconds,
            gpu_hours=process.seconds / 3600.0 * device_count(verdict),
            verdict=verdict,
        )
        self._keep_record(asked, trial)
        return trial, status

    def _falls_behind(self, asked: Any, report: Report) -> bool:
        asked.report(report.value, report.step)
        return bool(asked.should_prune())

    def _keep_record(self, asked: Any, trial: SearchTrial) -> None:
        """As our document has it, and what a dashboard shows by name."""
        asked.set_user_attr(studies.RECORD, msgspec.to_builtins(trial))
        shown: dict[str, Any] = {"ending": trial.ending, "gpu_hours": trial.gpu_hours}
        if (verdict := trial.verdict) is not None:
            shown |= {"state": verdict.state, "cause": verdict.cause, "busy": verdict.busy}
        for name, value in shown.items():
            asked.set_user_attr(f"whyidle.{name}", value)

    def _tell_result(self, trial: SearchTrial) -> float:
        if trial.ending == "pruned":
            raise studies.load_optuna().TrialPruned
        if trial.ending != "complete" or trial.metric is None:
            raise _UnfinishedError
        return trial.metric

    def _check_trial(self, trial: SearchTrial, status: int) -> None:
        """Check that the search makes sense.

        Raises:
            TrialError: the first trial did not report the metric, or the first three have failed.
        """
        if not (trial.number or status or trial.reports) and trial.ending == "failed":
            raise self._miss_metric(trial)
        ended = [t for t in studies.read_trials(self.study) if t.ending not in (*AGAIN, "running")]
        if len(ended) >= FAILURES and all(trial.ending == "failed" for trial in ended):
            raise TrialError(
                f"The command fails in every trial ({len(ended)} of {len(ended)}).",
                why=f"The last one: {trial.why}.",
                hint=f"See {trial_folder(self._folder, trial.number) / OUTPUT}",
            )

    def _miss_metric(self, trial: SearchTrial) -> TrialError:
        output = trial_folder(self._folder, trial.number) / OUTPUT
        shown = "\n         ".join(line[:160] for line in last_lines(output)) or "(no output)"
        return TrialError(
            f"The metric {self._setup.metric!r} never appeared in the first trial.",
            why=f"The last lines of {output}:\n         {shown}",
            hint="whyidle tune --metric 'val_loss: {}' ... reads 0.3 in a line with val_loss: 0.3",
        )


def _classify_end(status: int, trial: SearchTrial, folder: Path) -> tuple[Ending, str]:
    """How a trial ended that the search did not end, and why."""
    if status:
        output = "\n".join(last_lines(folder / OUTPUT, 400))
        return "failed", last_error_line(output) or f"exit status {status}"
    return ("complete", "") if trial.reports else ("failed", "the metric never appeared")


def trial_folder(search: Path, number: int) -> Path:
    """The folder of a trial."""
    return search / "trials" / f"{number:04}"


def device_count(verdict: TrialVerdict | None) -> int:
    """How many GPUs a trial held; 1 where it trained on the CPU or nothing is known."""
    on_cpu = verdict is None or verdict.device == "cpu"
    return 1 if on_cpu or verdict is None else max(verdict.devices, 1)
