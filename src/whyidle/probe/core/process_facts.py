"""Facts about a process that hold for every framework."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable

from ..redaction import redact_command
from ..wire import ProcessFacts
from .cpu_cores import given_count, usable_cores
from .recorder import clock_ns, process_start_ns

ENVIRONMENT = (
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
    "MKL_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "SLURM_JOB_ID",
    "SLURM_CPUS_PER_TASK",
    "SLURM_CPUS_ON_NODE",
    "PBS_JOBID",
    "LSB_JOBID",
)
MOST_MEMORY = 2_000


def describe_identity(imported: int, version: str, environment: Iterable[str]) -> ProcessFacts:
    """Return facts of a process that has imported a framework of this ``version`` at this moment
    (ns). ``environment``: the framework's own variables."""
    names = (*ENVIRONMENT, *environment)
    return {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "argv": redact_command(sys.argv[:20]),
        "version": version,
        "gpus": _host_gpus(),
        "process_start": process_start_ns(),
        "imported": imported,
        "environment": {key: os.environ[key] for key in names if key in os.environ},
    }


def describe_training_thread() -> ProcessFacts:
    """Return facts of the calling thread, which has just taken the first step."""
    return {
        "thread": threading.get_ident(),
        "first_step": clock_ns(),
        "cores": usable_cores(),
        "cores_given": given_count(),
    }


def _host_gpus() -> list[str]:
    """GPUs of this host, including those hidden from the framework."""
    try:
        return sorted(os.listdir("/proc/driver/nvidia/gpus"))
    except OSError:
        return []


def note_memory(facts: ProcessFacts, steps: int) -> None:
    """Record resident memory against the number of steps, thinned as the series grows."""
    try:
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return
    series = facts.setdefault("memory", [])
    if not series or series[-1][1] != steps:
        series.append([clock_ns(), steps, pages * os.sysconf("SC_PAGE_SIZE")])
    if len(series) > MOST_MEMORY:
        del series[::2]
