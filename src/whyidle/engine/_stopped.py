"""What is said of processes that somebody stops again and again, where no cause says it."""

from __future__ import annotations

from whyidle.analysis.facts import Facts
from whyidle.analysis.job import Job
from whyidle.analysis.stopping import Stops, stops

WORTH = 0.01
"""of the time; less is not worth a word"""


def notes_on(job: Job) -> list[str]:
    """Workers of loaders, and training processes."""
    told = []
    for index, facts in enumerate(job.ranks):
        whose = f" of rank {facts.rank}" if len(job.ranks) > 1 else ""
        told += _note(f"the loader's workers{whose} were", facts.workers.stops)
        if job.imbalance.stopped[index] < WORTH:
            told += _note(f"the training process{whose} was", _own(facts))
    return told


def _own(facts: Facts) -> Stops:
    pid = facts.timeline.settings.get("pid")
    return stops(facts.outside, [int(pid)] if pid is not None else [])


def _note(who: str, found: Stops) -> list[str]:
    if found.share < WORTH:
        return []
    return [
        f"{who} found stopped at {found.share:.0%} of {found.reads} reads, as by SIGSTOP: somebody "
        "else holds them still (a batch system that suspends, a guard, a debugger), and the "
        "recording does not tell who"
    ]
