"""The limit that gives a job fewer cores than its machine has, and who set it."""

from __future__ import annotations

from msgspec import Struct

from whyidle.analysis.facts import Facts
from whyidle.analysis.host.core_capacity import usable_cores
from whyidle.analysis.host.telemetry_window import TelemetryWindow

RESTRICTED = 1.5
"""ratio of the machine's cores to the granted cores above which more could be granted"""
_KINDS = ("user", "system", "idle", "stolen")  # idle includes waiting for storage
_SCHEDULERS = {"SLURM_JOB_ID": "Slurm", "PBS_JOBID": "PBS", "LSB_JOBID": "LSF"}


class CoreLimit(Struct, frozen=True):
    """A limit on the cores of a job."""

    cores: float
    """granted"""
    machine: float
    """cores of the machine"""
    kind: str
    """``quota``, ``cpuset`` or ``affinity``"""
    origin: str
    """who set it, as far as that can be seen"""


def find_core_limit(facts: Facts) -> CoreLimit | None:
    """Return the limit on the job's cores; None where the machine has hardly more, or unknown."""
    telemetry, cores = facts.telemetry, usable_cores(facts)
    machine = machine_cores(telemetry) if telemetry else None
    if telemetry is None or not cores or not machine or machine < RESTRICTED * cores:
        return None
    kind, origin = _kind_and_origin(telemetry, cores)
    environment = facts.timeline.process.environment
    scheduler = next((name for key, name in _SCHEDULERS.items() if key in environment), None)
    if scheduler:
        wanted = environment.get("SLURM_CPUS_PER_TASK")
        origin = f"{scheduler}, with {wanted} CPUs per task" if wanted else scheduler
    return CoreLimit(cores, machine, kind, origin)


def machine_cores(telemetry: TelemetryWindow) -> float | None:
    """Return the cores of the machine: the growth of all its CPU times per second."""
    total = telemetry.summed_rate(*(f"machine_cpu_{kind}_s" for kind in _KINDS))
    return float(round(total)) if total else None


def _kind_and_origin(telemetry: TelemetryWindow, cores: float) -> tuple[str, str]:
    quota = telemetry.mean_value("cores_quota")
    if quota is not None and quota <= cores:
        return "quota", "the control group of a container, a service or a batch system"
    cpuset = telemetry.mean_value("cores_cpuset")
    if cpuset is None:
        return "affinity", "taskset, a container or a batch system"
    if cpuset > cores:
        return "affinity", (
            f"taskset, numactl or the launcher, as the control group allows {cpuset:g} cores"
        )
    return "cpuset", "the control group of a container or a batch system"
