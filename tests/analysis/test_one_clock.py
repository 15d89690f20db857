"""Ranks of one machine read one clock, and a thread that waits for a core leaves a collective late:
when it left tells nothing then, how long it was in there does."""

import random
from dataclasses import replace

import numpy as np
import pytest

from cured_twins import judge_all
from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.job import Job
from whyidle.model.timeline import CpuPace
from whyidle.testing.builder import ms
from whyidle.testing.recorded_job import RecordedJob

LOOP = "/job/train.py(20): <module>"
STEPS = 40


def train(work, *, transfer=lambda step: 1, leave=lambda rank, step: 0, hosts=("a", "a"), ahead=0):
    """Two ranks that exchange once per step; ``work(rank, step)``, ``transfer(step)`` and
    ``leave(rank, step)``, how much later than the first a rank leaves, in ms."""
    jobs = [RecordedJob(pid=1, rank=rank, world_size=2) for rank in (0, 1)]
    for rank, (job, host) in enumerate(zip(jobs, hosts, strict=True)):
        job.documents["rank.json"] = {
            "rank": rank,
            "world_size": 2,
            "backend": "gloo",
            "host": host,
        }
    for step in range(STEPS):
        begins = [job.now for job in jobs]
        arrives = [b + ms(work(rank, step)) for rank, b in enumerate(begins)]
        ends = max(arrives) + ms(transfer(step))
        for rank, job in enumerate(jobs):
            job.work(LOOP, arrives[rank] - begins[rank])
            job.wait(LOOP, ends - arrives[rank])
            job.now += ms(leave(rank, step))
            job.spans.append((begins[rank], job.now, "whyidle::backward", 0))
            slept = job.now - (ends - arrives[rank])
            job.spans.append((slept, job.now, "gloo:all_reduce", 3))
            job.step(LOOP, ms(1))
    first, second = (job.timeline() for job in jobs)
    return [first, replace(second, base_ns=second.base_ns + ahead)]


def job(timelines):
    return Job(tuple(Facts(timeline) for timeline in timelines))


def crowded(seed=5):
    """Rank 0 waits up to 8 ms for a core whenever it leaves."""
    dice = random.Random(seed)
    return lambda rank, step: 0 if rank else dice.uniform(0, 8)


def longer(rank, step):
    return 24 if rank else 10


def test_who_leaves_late_is_not_taken_for_who_came_last():
    seen = job(train(longer, leave=crowded()))
    late = seen.imbalance.late_rank
    assert (late.rank, late.last_ratio) == (1, 1.0)
    assert late.lateness_s == pytest.approx(0.010, abs=0.002)
    assert seen.meetings.clock_error_s < 1e-5
    assert judge_all("rank-workload-imbalance", train(longer, leave=crowded()))


def test_ranks_of_two_machines_have_two_clocks():
    seen = job(train(longer, leave=crowded(), hosts=("a", "b")))
    assert seen.meetings.clock_error_s > 1e-3


def test_machines_of_one_name_whose_times_do_not_agree_have_two_clocks():
    seen = job(train(longer, leave=crowded(), ahead=ms(5000)))
    assert seen.meetings.clock_error_s > 1e-3


def equal(rank, step):
    return 12


def test_equal_ranks_that_leave_late_in_turns_wait_for_nobody():
    dice = random.Random(3)
    seen = train(equal, leave=lambda rank, step: dice.uniform(0, 0.05))
    assert judge_all("rank-workload-imbalance", seen) is None
    assert judge_all("late-rank", seen) is None


def test_what_a_transfer_takes_beyond_the_usual_is_no_communication_to_hide():
    """Every fourth takes nine times as long; its data is the same."""
    usual, held = train(equal), train(equal, transfer=lambda step: 9 if step % 4 == 0 else 1)
    assert job(usual).meetings.held_up == 0.0
    assert job(held).meetings.held_up == pytest.approx(7.5 / 12, abs=0.05)
    told = judge_all("exposed-gradient-comm", usual)
    other = judge_all("exposed-gradient-comm", held)
    assert other.high == pytest.approx(told.high, rel=0.25)


def test_transfers_that_are_always_slow_are_communication():
    assert judge_all("exposed-gradient-comm", train(equal, transfer=lambda step: 9)).high > 0.35


def paced(timelines, ran):
    """With what each rank's thread ran between two exchanges, ms, as the kernel counts it."""
    found = []
    for rank, timeline in enumerate(timelines):
        time = Facts(timeline).steps.end.copy()
        each = np.cumsum([ms(ran(rank, step)) for step in range(len(time))])
        found.append(replace(timeline, pace=CpuPace(time, each, np.zeros(len(time), np.int64))))
    return found


def test_a_rank_that_comes_late_but_runs_no_longer_has_no_more_work():
    late = train(longer)
    assert judge_all("rank-workload-imbalance", paced(late, longer))
    assert judge_all("rank-workload-imbalance", paced(late, equal)) is None
