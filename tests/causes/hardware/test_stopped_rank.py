"""A rank whose process somebody stops again and again: the kernel shows it, its exchanges do not,
as all its threads stand still in them as well."""

from dataclasses import replace

import numpy as np
import pytest

from cured_twins import covers, judge
from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.model.live.telemetry import Series, Telemetry
from whyidle.testing.builder import ms
from whyidle.testing.recorded_job import RecordedJob

CAUSE = "fail-slow-device"
LOOP = "/job/train.py(20): <module>"
STEPS, STOPPED, RUNS = 200, 5.0, 1.0
WORK = 18.0
"""of a step, ms; 1 ms more is the exchange"""


def train(share=0.5, states=None):
    """Two ranks. Rank 1 does not run for ``share`` of the time, evenly: its work takes longer, and
    so does what looks like its exchange."""
    whole = (WORK + 1.0) / (1.0 - share)
    jobs = [RecordedJob(pid=11 + rank, rank=rank, world_size=2) for rank in (0, 1)]
    for rank, job in enumerate(jobs):
        job.documents["rank.json"] = {
            "rank": rank, "world_size": 2, "backend": "gloo", "host": "a",
        }  # fmt: skip
        for _ in range(STEPS):
            begin = job.now
            job.work(LOOP, ms(WORK if rank == 0 else WORK * (0.5 + 0.5 / (1.0 - share))))
            slept = job.now
            job.wait(LOOP, begin + ms(whole) - slept)
            job.spans.append((begin, job.now, "whyidle::backward", 0))
            job.spans.append((slept, job.now, "gloo:all_reduce", 3))
            job.step(LOOP, ms(1))
    timelines = [job.timeline() for job in jobs]
    return [replace(each, telemetry=reads(each, share, states)) for each in timelines]


def reads(timeline, share, states):
    """Twice a second, the state of both processes."""
    time = timeline.base_ns + np.arange(0, int(STEPS * 0.02 * 2) + 4) * 500_000_000
    turns = (np.arange(len(time)) * 0.618) % 1.0 < share
    found = {"pid11": np.full(len(time), RUNS), "pid12": np.where(turns, STOPPED, RUNS)}
    found.update({pid: np.full(len(time), state) for pid, state in (states or {}).items()})
    return Telemetry({f"state@{pid}": Series(time, value) for pid, value in found.items()}, {})


def test_the_stopped_rank_is_named_and_the_others_wait_for_it():
    sick = train()
    proof = judge(CAUSE, *sick)
    assert proof.facts.rank == 1
    assert proof.where[0].rank == 1
    assert "The process of rank 1 is stopped" in proof.headline
    assert covers(proof, Facts(sick[0]).step_s / Facts(train(0.0)[0]).step_s, slack=0.05)
    assert judge("late-rank", *sick) is None
    assert judge("rank-workload-imbalance", *sick) is None
    plan = catalog.load_fixes()["replace-slow-device"].decide(proof)
    assert "what stops the process" in plan.summary


def test_what_looks_like_the_exchange_of_a_stopped_rank_is_none():
    sick = train()
    told = judge("exposed-gradient-comm", *sick)
    untold = judge("exposed-gradient-comm", *[replace(each, telemetry=None) for each in sick])
    assert untold.high > 0.2
    assert told is None or told.high < untold.high / 3


@pytest.mark.parametrize(
    "states", [{"pid12": 2.0}, {"pid12": RUNS}, {"pid11": STOPPED, "pid12": STOPPED}],
    ids=["sleeps", "runs", "both are stopped"],
)  # fmt: skip
def test_near_misses(states):
    assert judge(CAUSE, *train(states=states)) is None
