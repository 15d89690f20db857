"""Runs a search on this machine: starts trials, reads their metric, ends those that fall behind."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from whyidle.engine.search.command_template import FilledCommand
from whyidle.engine.search.search_state import SearchState, TrialEnd, trial_folder
from whyidle.engine.search.side_by_side import TrialRoom
from whyidle.engine.search.trial_process import TrialProcess, TrialTerms
from whyidle.model.search import Ending

SHORT_S, LONG_S = 0.02, 0.1
"""time between looks at the trials, in their first two seconds and later"""


@dataclass(slots=True)
class _Running:
    process: TrialProcess
    command: FilledCommand
    started: str
    ending: Ending | None = None
    why: str = ""


class SearchRun:
    """Trials of a search as processes of this one."""

    def __init__(self, state: SearchState, terms: TrialTerms, room: TrialRoom) -> None:
        self._state, self._terms, self._room = state, terms, room
        self._running: dict[int, _Running] = {}

    def run_trials(self) -> None:
        """Run trials until a limit is reached.

        Raises:
            TrialError: the metric never appears, or the command fails in every trial.
            OutputError: the ledger cannot be written.
            KeyboardInterrupt: all trials have been ended.
        """
        try:
            while self._running or self._state.may_start():
                while self._state.may_start() and len(self._running) < self._room.count:
                    self._start_trial()
                for number in list(self._running):
                    self._look_at(number)
                young = any(each.process.seconds < 2.0 for each in self._running.values())
                time.sleep(SHORT_S if young else LONG_S)
        except BaseException as error:
            self._end_all(interrupted=isinstance(error, KeyboardInterrupt))
            raise

    def _start_trial(self) -> None:
        trial = self._state.start_trial(len(self._running) + 1)
        command = self._state.fill_command(trial)
        folder = trial_folder(self._state.ledger.folder, trial.number)
        terms = replace(self._terms, threads=self._room.threads)
        process = TrialProcess(command, folder, terms)
        started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._running[trial.number] = _Running(process, command, started)

    def _look_at(self, number: int) -> None:
        running = self._running[number]
        status = running.process.poll_status()
        for report in running.process.read_reports():
            if running.ending is not None:
                break
            falls_behind = self._state.add_report(number, report)
            if not math.isfinite(report.value):
                running.ending, running.why = "failed", f"the metric became {report.value}"
            elif falls_behind and status is None:
                running.ending = "pruned"
            if running.ending is not None:
                running.process.end_processes()
        if status is not None:
            del self._running[number]
            end = TrialEnd(
                status=status,
                seconds=running.process.seconds,
                started=running.started,
                ending=running.ending,
                why=running.why,
                timed_out=running.process.timed_out,
            )
            self._state.end_trial(number, end, running.command)
            self._room.note_end(self._state.ledger.trials[number])

    def _end_all(self, *, interrupted: bool) -> None:
        """End all trials. Those of an interrupt are recorded; all run again on resume."""
        for running in self._running.values():
            running.process.end_processes()
        for number, running in self._running.items():
            running.process.wait_for_end()
            if interrupted:
                self._state.interrupt_trial(number, running.process.seconds)
