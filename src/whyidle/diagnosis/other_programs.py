"""Other programs that compete for the machine's cores, or share its GPU."""

from __future__ import annotations

import re
from typing import Final

from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.job import Job
from whyidle.analysis.steps.undisturbed_steps import cores_of_others

VIRTUAL: Final = re.compile(r"^(?:GRID|NVIDIA) \S+-\d+[ABCQ]$")
"""names of NVIDIA's virtual GPUs: card, size in GB, and series, such as ``GRID T4-8Q``"""


def notes_on(job: Job) -> list[str]:
    """Notes if the GPU is a share of one, and if other programs filled the machine's cores."""
    name = job.lead_rank.timeline.info.name or ""
    shared = [
        f"{name} is a virtual GPU: other machines share its card in time slices, so some of the "
        "waiting and of the slow kernels may be due to them"
    ]
    return [*(shared if VIRTUAL.match(name) else []), *_notes_on_cores(job)]


def _notes_on_cores(job: Job) -> list[str]:
    telemetry = job.lead_rank.telemetry
    load = cores_of_others(telemetry) if telemetry is not None else None
    if load is None:
        return []
    others, cores = load
    return [
        f"other programs used {others:.1f} of the machine's {cores:.0f} cores and no core was "
        "idle, which lengthens steps and distorts shares; repeat the run on an idle machine"
        + _of_operators(job.lead_rank, cores - others)
    ]


def _of_operators(facts: Facts, left: float) -> str:
    """Suggest fewer operator threads if there are more than free cores: an operator ends when its
    last thread ends, and that one may be waiting for a core."""
    threads = facts.timeline.process.operator_threads or 1
    fit = max(1, round(left))
    if not facts.on_cpu or threads <= fit:
        return ""
    return (
        f", or set OMP_NUM_THREADS={fit} here: operators of this job use {threads} threads, and "
        "each waits for its slowest thread (changes rounding)"
    )
