"""Runs the trials of a search on a Ray cluster: Ray Tune places them, ASHA ends them early.

The search is driven through a searcher of our own, so that ledger, proposals and resume are those
of every search; Ray's own snapshots, which miss the last seconds, are not needed. A trial is a
process in a Ray worker, in the command's folder, which all machines share at the same path; its
metric travels through ``tune.report``, in which Ray stops a trial. The rungs of ASHA begin empty
after a resume.
"""

from __future__ import annotations

import json
import math
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from whyidle.engine.search.command_template import FilledCommand
from whyidle.engine.search.proposals import REDUCTION, UNJUDGED
from whyidle.engine.search.search_state import SearchState, TrialEnd, trial_folder
from whyidle.engine.search.trial_process import TrialProcess, TrialTerms
from whyidle.errors import MissingExtraError, TrialError
from whyidle.model.search import Report

END = "end.json"
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "15",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_worker_niceness": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
}
"""no statistics, the command's own folder, an early end where Ray's head is lost, and in a Ray that
is started here trials of normal priority, where Ray's default is that of background work"""
OWN = ("RAY_", "CUDA_VISIBLE", "HIP_VISIBLE", "ROCR_VISIBLE")
"""beginnings of variables that Ray sets for a worker"""
CONNECT_S = 10.0
"""time for the head of a cluster to answer"""
LAST_S = 5.0
"""time for the ends of the last trials to arrive, beyond their grace"""


@dataclass(frozen=True, slots=True)
class RayOrder:
    """A trial to run in a worker."""

    command: FilledCommand
    folder: Path
    terms: TrialTerms
    environment: Mapping[str, str]


def run_ray_search(state: SearchState, terms: TrialTerms, resources: Mapping[str, float]) -> None:
    """Run the search on the cluster of RAY_ADDRESS, or on one that is started here.

    Raises:
        MissingExtraError: Ray is not installed.
        TrialError: no cluster answers, it lacks the resources, the metric never appears, or all
            trials fail.
    """
    try:
        import ray  # noqa: PLC0415  # an extra
        from ray import tune  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(
            "The engine ray requires Ray.", why=f"{error}.", hint='pip install "whyidle[ray]"'
        ) from error
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    _connect_ray(ray)
    try:
        holds, count = choose_resources(ray.nodes(), resources)
        trials = RayTrials(state, terms)
        mode = "min" if state.setup.direction == "minimize" else "max"
        scheduler = tune.schedulers.ASHAScheduler(
            max_t=1_000_000, grace_period=UNJUDGED, reduction_factor=REDUCTION
        )
        tuner = tune.Tuner(
            tune.with_resources(run_in_worker, holds),
            tune_config=tune.TuneConfig(
                metric="metric",
                mode=mode,
                search_alg=_make_searcher(tune, trials),
                scheduler=None if state.setup.pruner == "none" else scheduler,
                num_samples=-1,
                max_concurrent_trials=count,
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(storage_path=str(state.ledger.folder / "ray"), verbose=0),
        )
        tuner.fit()
        trials.finish_trials()
    finally:
        ray.shutdown()


def _connect_ray(ray: Any) -> None:
    address = os.environ.get("RAY_ADDRESS", "")
    host, _, port = address.rpartition(":")
    try:
        if port.isdecimal() and "/" not in host:  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), CONNECT_S).close()
        ray.init(log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    except Exception as error:  # Ray also raises exceptions without a class of their own
        hint = "Start a cluster with ray start --head, or unset RAY_ADDRESS: one is started here."
        raise TrialError(
            "No Ray cluster answers." if address else "Ray cannot be started here.",
            why=f"RAY_ADDRESS is {address!r}: {error}."
            if address
            else f"{error}".rstrip(".") + ".",
            hint=hint if address else "Call it again; nothing is lost.",
        ) from error


def choose_resources(
    nodes: list[dict[str, Any]], asked: Mapping[str, float]
) -> tuple[dict[str, float], int]:
    """The resources of a trial by Ray's names, and how many trials fit at once. By default a trial
    holds a GPU with its share of the cores, or a whole machine without GPUs.

    Raises:
        TrialError: no machine has what was asked for.
    """
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    largest: dict[str, float] = max(
        alive, key=lambda held: (held.get("GPU", 0), held.get("CPU", 0)), default={}
    )
    gpus, cpus = largest.get("GPU", 0), largest.get("CPU", 1)
    holds = {name.upper() if name in ("cpu", "gpu") else name: n for name, n in asked.items()}
    holds = holds or ({"GPU": 1, "CPU": max(cpus // gpus, 1)} if gpus else {"CPU": cpus})
    count = sum(
        int(min(held.get(name, 0) // number for name, number in holds.items())) for held in alive
    )
    if not count:
        needs = ", ".join(f"{name} {number:g}" for name, number in holds.items())
        why = f"A trial needs {needs}; the largest machine has CPU {cpus:g}, GPU {gpus:g}."
        raise TrialError("No machine of the Ray cluster can run a trial.", why=why)
    return holds, count


def run_in_worker(order: dict[str, Any]) -> None:
    """Run a trial in a Ray worker, and write how it ended into its folder."""
    from ray import tune  # noqa: PLC0415

    asked: RayOrder = order["order"]
    os.environ.update({k: v for k, v in asked.environment.items() if not k.startswith(OWN)})
    # Ray uses a worker again only if the trial before has ended in it by then; its default is 2 s
    os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] = f"{3 * asked.terms.grace_s + LAST_S:.0f}"
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    process = TrialProcess(asked.command, asked.folder, asked.terms)
    ending: str | None = None
    why = ""
    try:
        status = None
        while status is None:
            status = process.poll_status()
            for report in process.read_reports():
                if not math.isfinite(report.value):
                    ending, why = "failed", f"the metric became {report.value}"
                    process.end_processes()
                    break
                ending = "pruned"  # if Ray ends the trial, this call does not return
                tune.report({"metric": report.value, "step": report.step, "at": report.seconds})
                ending = None
            time.sleep(0.02 if process.seconds < 2.0 else 0.1)
    finally:
        seconds = process.seconds
        process.end_processes()
        process.wait_for_end()
        end = TrialEnd(
            status=process.poll_status() or 0,
            seconds=seconds,
            started=started,
            ending=ending,  # type: ignore[arg-type]
            why=why,
            timed_out=process.timed_out,
        )
        (asked.folder / f"{END}~").write_text(json.dumps(asdict(end)), encoding="utf-8")
        (asked.folder / f"{END}~").replace(asked.folder / END)


class RayTrials:
    """The trials of a search in Ray, by Ray's ids. A trial ends in the ledger when its worker has
    written how, which may be some calls after Ray has said so."""

    def __init__(self, state: SearchState, terms: TrialTerms) -> None:
        self._state, self._terms = state, terms
        self._numbers: dict[str, int] = {}
        self._commands: dict[int, FilledCommand] = {}
        self._over: dict[int, bool] = {}
        """trials that Ray says are over, and whether by an error of Ray"""
        self._failure: TrialError | None = None

    def start_trial(self, trial_id: str) -> dict[str, Any] | None:
        """The configuration of another trial; None if there is to be none."""
        self._record_ends()
        state = self._state
        if self._failure is not None or not state.may_start():
            return None
        trial = state.start_trial(len(self._commands.keys() - self._over.keys()) + 1)
        self._numbers[trial_id] = trial.number
        command = self._commands[trial.number] = state.fill_command(trial)
        folder = trial_folder(state.ledger.folder, trial.number)
        return {"order": RayOrder(command, folder, self._terms, dict(os.environ))}

    def add_result(self, trial_id: str, result: Mapping[str, Any]) -> None:
        """A trial has reported."""
        self._record_ends()
        number = self._numbers[trial_id]
        if number in self._commands and "step" in result and not result.get("done"):
            value, step, at = result["metric"], result["step"], result["at"]
            self._state.add_report(number, Report(step=step, value=value, seconds=at))

    def note_over(self, trial_id: str, *, by_error: bool) -> None:
        """Ray says that a trial is over."""
        self._over[self._numbers[trial_id]] = by_error
        self._record_ends()

    def finish_trials(self) -> None:
        """Wait for the last ends.

        Raises:
            TrialError: the search gave up.
        """
        until = time.monotonic() + self._terms.grace_s + LAST_S
        while self._commands and time.monotonic() < until:
            self._record_ends()
            time.sleep(0.05)
        for number in self._commands:
            self._state.interrupt_trial(number, 0.0)
        if self._failure is not None:
            raise self._failure

    def _record_ends(self) -> None:
        for number in [n for n in self._over if n in self._commands]:
            path = trial_folder(self._state.ledger.folder, number) / END
            if path.exists():
                self._record_end(number, TrialEnd(**json.loads(path.read_text(encoding="utf-8"))))
            elif self._over[number]:
                why = "Ray lost its worker"
                self._record_end(number, TrialEnd(1, 0.0, "", ending="failed", why=why))

    def _record_end(self, number: int, end: TrialEnd) -> None:
        try:
            self._state.end_trial(number, end, self._commands.pop(number))
        except TrialError as error:  # reported when Ray has ended the others
            self._failure = self._failure or error


def _make_searcher(tune: Any, trials: RayTrials) -> Any:
    """The searcher of Ray Tune that asks and tells our trials."""

    class LedgerSearcher(tune.search.Searcher):  # type: ignore[misc]
        def set_search_properties(self, *_: Any, **__: Any) -> bool:
            return True

        def save(self, checkpoint_path: str) -> None:
            """Nothing: the ledger is more than Ray's snapshot."""

        restore = save

        def suggest(self, trial_id: str) -> Any:
            return trials.start_trial(trial_id) or tune.search.Searcher.FINISHED

        def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
            trials.add_result(trial_id, result)

        def on_trial_complete(self, trial_id: str, *_: Any, **more: Any) -> None:
            trials.note_over(trial_id, by_error=bool(more.get("error")))

    return LedgerSearcher(metric="metric", mode="max")
