"""Runs trials on one machine of a Ray cluster: each arm is a process in a Ray task.

All arms run on the same machine, one after another, because they are compared. By default a task
reserves the whole machine, so that Ray runs nothing else on it. Ray does not enforce reservations
of cores: an arm with four reserved cores can use all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from whyidle.errors import MissingExtraError, TrialError
from whyidle.fix.arms.arm import ArmRequest, ArmResult
from whyidle.fix.arms.isolation_report import told_of
from whyidle.fix.executor import TrialTerms
from whyidle.fix.executors import _remote_arm
from whyidle.fix.isolation import Leak, Level
from whyidle.version import __version__

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
}
"""no usage statistics and warnings from a Ray that whyidle starts"""
NAMES = {"cpu": "CPU", "gpu": "GPU"}  # resource names of whyidle -> of Ray
LOOK_S = 60.0  # time limit for the check of a machine


def start(terms: TrialTerms) -> RayExecutor:
    """Connect to the cluster (RAY_ADDRESS, or one on this machine) or start Ray, and choose a
    machine.

    Raises:
        MissingExtraError: Ray is not installed.
        TrialError: no machine of the cluster can run arms.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError(
            "The engine ray requires Ray.", why=f"{error}.", hint='pip install "whyidle[ray]"'
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
    def __init__(self, node: Mapping[str, Any]) -> None:
        self.id: str = node["NodeID"]
        self.address: str = node["NodeManagerAddress"]
        self.resources: Mapping[str, float] = node["Resources"]
        self.host = self.address
        self.level: Level = "python"

    def arm_resources(self, asked: Mapping[str, float]) -> dict[str, float]:
        """Resources of an arm, by Ray's names."""
        if asked:
            return {NAMES.get(name, name): count for name, count in asked.items()}
        return {name: self.resources[name] for name in ("CPU", "GPU") if name in self.resources}

    def task_options(self, holds: Mapping[str, float]) -> dict[str, Any]:
        """Options of a task on this machine."""
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
    import ray

    machines = [_RayMachine(node) for node in ray.nodes() if node["Alive"]]
    machines.sort(
        key=lambda machine: (-machine.resources.get("GPU", 0), -machine.resources.get("CPU", 0))
    )
    refused: list[_remote_arm.MachineCheck] = []
    for machine in machines:
        holds = machine.arm_resources(terms.resources)
        if any(machine.resources.get(name, 0) < count for name, count in holds.items()):
            has = ", ".join(f"{name} {machine.resources.get(name, 0):g}" for name in holds)
            refused.append(
                _remote_arm.MachineCheck(machine.address, f"it has {has}", "Reduce --resources.")
            )
            continue
        check = _check_remote(machine, terms)
        if not check.why:
            machine.host, machine.level = check.host, check.level
            return machine
        refused.append(check)
    raise TrialError(
        "No machine of the Ray cluster can run the trials.",
        why="; ".join(f"{machine.host}: {machine.why.rstrip('.')}" for machine in refused) + ".",
        hint=refused[0].hint if refused else "ray status",
    )


def _check_remote(machine: _RayMachine, terms: TrialTerms) -> _remote_arm.MachineCheck:
    import ray

    task = ray.remote(_remote_arm.check_machine).options(**machine.task_options({}))
    try:
        check: _remote_arm.MachineCheck = ray.get(
            task.remote(terms, _remote_arm.named_files(terms), __version__), timeout=LOOK_S
        )
    except ray.exceptions.GetTimeoutError:
        return _remote_arm.MachineCheck(
            machine.address, f"no answer within {LOOK_S:.0f} s", "ray status"
        )
    except (ray.exceptions.RayError, ImportError) as error:
        hint = f"Install whyidle {__version__} there, for the Python that Ray runs."
        return _remote_arm.MachineCheck(machine.address, _last_line(error), hint)
    return check


class RayExecutor:
    """Runs arms as Ray tasks."""

    def __init__(self, terms: TrialTerms, machine: _RayMachine, *, own: bool) -> None:
        self._terms, self._machine, self._own = terms, machine, own
        self._holds = machine.arm_resources(terms.resources)
        self._leaks: dict[Leak, None] = {}

    def run_arm(self, request: ArmRequest, folder: Path) -> ArmResult:
        """Run one arm. Errors of Ray or of the machine count as a crash."""
        import ray

        begin = time.monotonic()
        order = _remote_arm.RemoteOrder(self._terms, request, folder.name)
        task = ray.remote(_remote_arm.run_remote).options(**self._machine.task_options(self._holds))
        try:
            # 300 s for Ray to schedule the arm
            result = _await_result(task.remote(order), 300.0 + 2 * request.patience_s)
        except ray.exceptions.RayTaskError as error:
            if request.patch is not None and isinstance(error, OSError):
                raise
            if isinstance(error.cause, TrialError):
                raise error.cause from None
            error_text = _last_line(error)
        except ray.exceptions.GetTimeoutError:
            error_text = f"Ray could not schedule it on {self._machine.host}; reduce --resources"
        except ray.exceptions.RayError as error:
            error_text = f"Ray: {_last_line(error)}"
        else:
            self._leaks |= dict.fromkeys(result.leaks)
            return _remote_arm.unpack_result(result, folder)
        return ArmResult(
            "crashed", None, time.monotonic() - begin, folder / "recording", error_text
        )

    def executor_notes(self) -> list[str]:
        """Sentences on the machine and on blocked actions."""
        resources = ", ".join(f"{name} {count:g}" for name, count in self._holds.items())
        where = (
            f"Trials ran on {self._machine.host} with Ray, each with {resources or 'no resources'}."
        )
        return [where, *told_of(self._leaks, network=self._terms.network)]

    def close(self) -> None:
        """Disconnect; a cluster that whyidle started ends."""
        import ray

        if self._own:
            ray.shutdown()


def _await_result(reference: Any, timeout_s: float) -> _remote_arm.RemoteResult:
    """Wait for a task; on a timeout or an interrupt, stop its arm."""
    import ray

    try:
        result: _remote_arm.RemoteResult = ray.get(reference, timeout=timeout_s)
    except BaseException:
        ray.cancel(reference)  # like Ctrl-C: ends its processes and removes its folders
        done, _ = ray.wait([reference], timeout=10.0)  # for the stopped arm to exit
        if not done:
            ray.cancel(reference, force=True)
        raise
    return result


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
