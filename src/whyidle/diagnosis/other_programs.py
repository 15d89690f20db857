"""Other programs that compete for the machine's cores."""

from __future__ import annotations

from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.job import Job
from whyidle.analysis.steps.undisturbed_steps import cores_of_others


def notes_on(job: Job) -> list[str]:
    """A note if other programs filled the machine's cores."""
    telemetry = job.lead_rank.telemetry
    load = cores_of_others(telemetry) if telemetry is not None else None
    if load is None:
        return []
    others, cores = load
    return [
        f"other programs used {others:.1f} of the machine's {cores:.0f} cores and no core was "
        "idle: this lengthens steps, above all where threads wait for each other, and distorts "
        "the shares; repeat the run on an idle machine"
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
