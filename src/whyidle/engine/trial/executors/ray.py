"""Trials on one machine of a Ray cluster: each arm is a process in a Ray task that holds what the
job needs of it.

All arms run on the same machine, one after another, for they are compared; by default they hold all
of it, so that Ray puts nothing else beside them. Ray counts cores and does not enforce them: an arm
that holds four still sees every one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from whyidle.engine.isolation import Leak, Level
from whyidle.engine.trial.arms.arm import ArmRequest, ArmResult
from whyidle.engine.trial.arms.isolation_report import told_of
from whyidle.engine.trial.executor import TrialTerms
from whyidle.engine.trial.executors import _remote_arm
from whyidle.errors import MissingExtraError, TrialError
from whyidle.version import __version__

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
}
"""nothing is sent from a Ray that we start, and it says nothing of its own plans"""
NAMES = {"cpu": "CPU", "gpu": "GPU"}
"""our names of resources -> Ray's"""
LOOK_S = 60.0
"""within which a machine of the cluster says whether arms can run there"""
QUEUE_S = 300.0
"""within which Ray finds room for an arm, after which it is not waited for"""
END_S = 10.0
"""within which an arm that is stopped ends by itself"""


def start(terms: TrialTerms) -> RayExecutor:
    """Connect to the cluster that is there (RAY_ADDRESS, or one on this machine), else start a Ray
    here, and find a machine.

    Raises:
        MissingExtraError: Ray is not installed.
        TrialError: no machine of the cluster can run arms.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError(
            "The engine ray needs Ray.", why=f"{error}.", hint='pip install "whyidle[ray]"'
        ) from error
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    own = not ray.is_initialized()
    if own:
        ray.init(log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    try:
        machine = _choose_machine(terms)
        return RayExecutor(replace(terms, level=machine.level), machine, own=own)
    except BaseException:
        if own:
            ray.shutdown()
        raise


class _RayMachine:
    """A machine of the cluster, by what Ray tells of it."""

    def __init__(self, node: Mapping[str, Any]) -> None:
        self.id: str = node["NodeID"]
        self.address: str = node["NodeManagerAddress"]
        self.resources: Mapping[str, float] = node["Resources"]
        self.host = self.address
        self.level: Level = "python"

    def arm_resources(self, asked: Mapping[str, float]) -> dict[str, float]:
        """What an arm holds of it, by Ray's names."""
        if asked:
            return {NAMES.get(name, name): count for name, count in asked.items()}
        return {name: self.resources[name] for name in ("CPU", "GPU") if name in self.resources}

    def task_options(self, holds: Mapping[str, float]) -> dict[str, Any]:
        """Of a task that runs there, once."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        others = {name: count for name, count in holds.items() if name not in ("CPU", "GPU")}
        return {
            "num_cpus": holds.get("CPU", 0),
            "num_gpus": holds.get("GPU", 0),
            "resources": others,
            "max_retries": 0,
            "scheduling_strategy": NodeAffinitySchedulingStrategy(self.id, soft=False),
        }


def _choose_machine(terms: TrialTerms) -> _RayMachine:
    """The largest one that has what is asked for, reaches the files, and can keep arms in."""
    import ray

    every = [_RayMachine(node) for node in ray.nodes() if node["Alive"]]
    every.sort(key=lambda one: (-one.resources.get("GPU", 0), -one.resources.get("CPU", 0)))
    refused: list[_remote_arm.MachineCheck] = []
    for one in every:
        holds = one.arm_resources(terms.resources)
        if any(one.resources.get(name, 0) < count for name, count in holds.items()):
            has = ", ".join(f"{name} {one.resources.get(name, 0):g}" for name in holds)
            refused.append(
                _remote_arm.MachineCheck(one.address, f"it has {has}", "Ask for less: --resources")
            )
            continue
        seen = _check_remote(one, terms)
        if not seen.why:
            one.host, one.level = seen.host, seen.level
            return one
        refused.append(seen)
    raise TrialError(
        "No machine of the Ray cluster can run the trials.",
        why="; ".join(f"{one.host}: {one.why.rstrip('.')}" for one in refused) + ".",
        hint=refused[0].hint if refused else "ray status",
    )


def _check_remote(one: _RayMachine, terms: TrialTerms) -> _remote_arm.MachineCheck:
    import ray

    task = ray.remote(_remote_arm.check_machine).options(**one.task_options({}))
    try:
        seen: _remote_arm.MachineCheck = ray.get(
            task.remote(terms, _remote_arm.named_files(terms), __version__), timeout=LOOK_S
        )
    except ray.exceptions.GetTimeoutError:
        return _remote_arm.MachineCheck(
            one.address, f"no answer within {LOOK_S:.0f} s", "ray status"
        )
    except (ray.exceptions.RayError, ImportError) as error:
        hint = f"Install whyidle {__version__} there, for the Python that Ray runs."
        return _remote_arm.MachineCheck(one.address, _last_line(error), hint)
    return seen


class RayExecutor:
    """Arms are tasks."""

    def __init__(self, terms: TrialTerms, machine: _RayMachine, *, own: bool) -> None:
        self._terms, self._machine, self._own = terms, machine, own
        self._holds = machine.arm_resources(terms.resources)
        self._leaks: dict[Leak, None] = {}

    def run_arm(
        self, asked: ArmRequest, folder: Path, slowest: Mapping[int, float] | None = None
    ) -> ArmResult:
        """One arm. What Ray or the machine does to it is told as if it had crashed."""
        import ray

        begin = time.monotonic()
        order = _remote_arm.RemoteOrder(self._terms, asked, folder.name, slowest)
        task = ray.remote(_remote_arm.run_remote).options(**self._machine.task_options(self._holds))
        try:
            came = _await_result(task.remote(order), QUEUE_S + 2 * asked.patience_s)
        except ray.exceptions.RayTaskError as error:
            if asked.patch is not None and isinstance(error, OSError):
                raise
            if isinstance(error.cause, TrialError):
                raise error.cause from None
            said = _last_line(error)
        except ray.exceptions.GetTimeoutError:
            said = f"Ray found no room for it on {self._machine.host}: --resources"
        except ray.exceptions.RayError as error:
            said = f"Ray: {_last_line(error)}"
        else:
            self._leaks |= dict.fromkeys(came.leaks)
            return _remote_arm.unpack_result(came, folder)
        return ArmResult("crashed", None, time.monotonic() - begin, folder / "recording", said)

    def executor_notes(self) -> list[str]:
        """Where arms ran, and what was held back."""
        held = ", ".join(f"{name} {count:g}" for name, count in self._holds.items())
        where = f"Trials ran on {self._machine.host} by Ray, each with {held or 'nothing'} of it."
        return [where, *told_of(self._leaks, network=self._terms.network)]

    def close(self) -> None:
        """Leave the cluster; one that we started ends with that."""
        import ray

        if self._own:
            ray.shutdown()


def _await_result(reference: Any, timeout_s: float) -> _remote_arm.RemoteResult:
    """What a task returns. Where it takes too long, or we are stopped, its arm is ended there."""
    import ray

    try:
        came: _remote_arm.RemoteResult = ray.get(reference, timeout=timeout_s)
    except BaseException:
        ray.cancel(reference)  # as Ctrl-C would: what it started is ended, its folders removed
        done, _ = ray.wait([reference], timeout=END_S)
        if not done:
            ray.cancel(reference, force=True)
        raise
    return came


def _last_line(error: Exception) -> str:
    """The last line of what it says: of an error there, the error itself."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
