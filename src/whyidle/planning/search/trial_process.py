"""The process of one trial: started with the probe, its output in a file, ended by signals."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from whyidle.errors import UsageError
from whyidle.model.documents.search import Report
from whyidle.model.plan import FixPlan
from whyidle.planning.search.command_template import FilledCommand
from whyidle.planning.search.metric_reading import MetricReader, split_metric
from whyidle.record import plan_channel
from whyidle.record.launcher import WatchLimits, command_environment

LAUNCHER = Path(__file__).with_name("trial_launcher.py")
OUTPUT, REPORTED, RECORDING = "output.log", "reported.jsonl", "recording"
MARK, DRIVER = "WHYIDLE_SEARCH", "WHYIDLE_SEARCH_PID"
"""variables that hold the folder of the search and the process that started the trial, by which
left processes are found"""
WATCHED_STEPS = 300
"""steps that are watched: enough for a diagnosis, and its cost does not grow with the job"""
GRACE_S = 10.0
"""time between SIGTERM and SIGKILL"""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class TrialTerms:
    """What holds for every trial: the metric, the plan, and the cores of one trial (None: all)."""

    metric: str
    search: Path
    plan: FixPlan | None = None
    threads: int | None = None
    here: Path = field(default_factory=Path.cwd)  # working folder of the command


class TrialProcess:
    """A running trial. ``read_reports`` and ``poll_status`` are called until it has ended."""

    def __init__(self, command: FilledCommand, folder: Path, terms: TrialTerms) -> None:
        self.folder = folder
        self._reader = MetricReader(terms.metric, folder / OUTPUT, folder / REPORTED)
        self._begun = time.monotonic()
        self._ended: float | None = None
        self._status: int | None = None
        launcher = [sys.executable, "-IS", str(LAUNCHER), str(os.getpid()), f"{GRACE_S}"]
        try:
            with (folder / OUTPUT).open("ab") as output:
                self._child = subprocess.Popen(
                    [*launcher, *command.words],
                    cwd=terms.here,
                    env=trial_environment(command, folder, terms),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            why = f"{error.strerror or error}."
            raise UsageError("Cannot start a trial.", why=why, hint="Check the folder.") from error

    @property
    def pid(self) -> int:
        """The process that ends with all others of the trial."""
        return self._child.pid

    @property
    def seconds(self) -> float:
        """Seconds since its start, until its end was seen."""
        return (self._ended or time.monotonic()) - self._begun

    def read_reports(self) -> list[Report]:
        """The values of the metric since the last call."""
        return self._reader.read_appended(self.seconds)

    def poll_status(self) -> int | None:
        """The exit status as a shell reports it; None while it runs."""
        if self._status is None and self._child.poll() is not None:
            self._status, self._ended = self._child.returncode, time.monotonic()
            self._reader.finish_files()
        return self._status

    def end_processes(self) -> None:
        """Ask the launcher to end all processes of the trial; returns at once."""
        with suppress(ProcessLookupError):
            self._child.terminate()

    def wait_for_end(self) -> None:
        """Wait until all processes are gone."""
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(3 * GRACE_S + 10.0)
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()
        self.poll_status()


def trial_environment(command: FilledCommand, folder: Path, terms: TrialTerms) -> dict[str, str]:
    """The environment: the user's, the values that are variables, the probe, the plan, threads."""
    recording = folder / RECORDING
    recording.mkdir(exist_ok=True)
    limits = WatchLimits(steps=WATCHED_STEPS, profile="off")
    variables = {
        "PYTHONUNBUFFERED": "1",  # else lines arrive together at the end, and nothing ends early
        "WHYIDLE_METRICS": str(folder / REPORTED),
        "WHYIDLE_METRIC_NAME": "" if "{" in terms.metric else split_metric(terms.metric)[1],
        MARK: str(terms.search),
        DRIVER: str(os.getpid()),
        **command.variables,
    }
    if terms.threads is not None:
        variables |= {name: str(terms.threads) for name in THREADS if name not in os.environ}
    if terms.plan is not None:
        plan = terms.plan
        variables |= plan_channel.write_request(plan.settings, plan.previous_settings, recording)
    return command_environment(recording, limits, variables)


def end_left_processes(search: Path) -> int:
    """End processes of a search whose whyidle has died; returns how many there were."""
    left = [process for process in psutil.process_iter() if _is_left(process, search)]
    for process in left:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(left, timeout=10.0)
    return len(left)


def _is_left(process: psutil.Process, search: Path) -> bool:
    with suppress(psutil.Error, OSError, ValueError):
        variables = process.environ() if process.pid != os.getpid() else {}
        if variables.get(MARK) == str(search):
            return not psutil.pid_exists(int(variables.get(DRIVER, "0")))
    return False
