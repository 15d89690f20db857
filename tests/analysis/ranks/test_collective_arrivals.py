"""One clock for all ranks, and who comes last: recovered from what the fleet put there."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.job import Job
from whyidle.testing.builder import us
from whyidle.testing.contracts import Fleet

GEMM = "ampere_sgemm_128x64_tn"


def job(fleet: Fleet) -> Job:
    return Job(tuple(Facts(timeline) for timeline in fleet.timelines()))


def train(fleet: Fleet, work_us, steps: int = 5, *, per_step: int = 3) -> Fleet:
    """``work_us(step, rank)`` of compute in ten kernels, then collectives, then an update."""
    for step in range(steps):
        with fleet.step():
            for _ in range(per_step):
                for index, rank in enumerate(fleet.ranks):
                    for _ in range(10):
                        share = us(work_us(step, index) / 10 / per_step)
                        rank.op("aten::mm", kernels=[(GEMM, share)])
                fleet.collective(us(400), elements=1_000_000)
                fleet.join()
            for rank in fleet.ranks:
                rank.optimizer([("multi_tensor_apply_kernel", us(50))])
                rank.sync()
    return fleet


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(2, 4))
def test_clock_offsets_are_recovered_within_the_reported_error(seed, count):
    dice = random.Random(seed)
    ahead = [0] + [dice.randrange(-5_000_000, 5_000_000) for _ in range(count - 1)]
    fleet = Fleet(count, offsets_ns=ahead, leave_ns=lambda rank, number: dice.randrange(8_000))
    met = job(train(fleet, lambda step, rank: 3000)).meetings
    assert len(met) == 15
    error = met.clock_error_s * 1e9
    assert error < 20_000
    assert np.abs(met.ahead - ahead).max() <= error


def test_the_late_rank_is_the_one_with_the_shortest_collectives():
    seen = job(train(Fleet(4), lambda step, rank: 4000 if rank == 2 else 3000))
    time = [facts.collectives.duration.sum() for facts in seen.ranks]
    assert int(np.argmin(time)) == 2
    imbalance = seen.imbalance
    assert imbalance.late_rank.rank == 2
    assert imbalance.late_rank.is_constant
    assert imbalance.last_ratio.tolist() == [0.0, 0.0, 1.0, 0.0]
    assert imbalance.lateness_s[2] == pytest.approx(1e-3, rel=0.05)
    assert imbalance.waiting_s[2] == 0.0
    assert imbalance.late_rank.reason == "compute"


def test_waiting_and_transfer_are_told_apart():
    seen = job(train(Fleet(2), lambda step, rank: 3000 + 600 * rank))
    step_s = seen.ranks[0].step_s
    assert seen.imbalance.waiting_s[0] * step_s == pytest.approx(600e-6, rel=0.05)
    assert seen.imbalance.transfer[0] * step_s == pytest.approx(3 * 400e-6, rel=0.05)
    assert seen.meetings.transfer_ns.tolist() == [us(400)] * 15


def test_closer_together_than_the_clocks_agree_nobody_is_late():
    dice = random.Random(3)
    fleet = Fleet(2, leave_ns=lambda rank, number: dice.randrange(300_000))
    seen = job(train(fleet, lambda step, rank: 3000 + 60 * rank))
    assert seen.meetings.clock_error_s > 60e-6
    assert seen.meetings.is_decided.mean() < 0.1
    assert seen.imbalance.loss_interval[1] < 0.01


def test_ranks_that_cannot_be_told_apart_share_the_blame():
    seen = job(train(Fleet(4), lambda step, rank: 4000 if rank > 1 else 3000))
    late = seen.imbalance.lateness_s
    assert late[2] == pytest.approx(late[3])
    assert late[:2].tolist() == [0.0, 0.0]


def test_the_ideal_is_every_rank_at_the_mean():
    """P8 against the twin whose ranks all do the mean of the work."""
    sick = job(train(Fleet(4), lambda step, rank: [2000, 3000, 3000, 6000][rank]))
    even = job(train(Fleet(4), lambda step, rank: 3500))
    low, high = sick.imbalance.loss_interval
    won = 1.0 - even.ranks[0].step_s / sick.ranks[0].step_s
    assert low * 0.9 - 0.005 <= won <= high + 0.005


def test_turns_are_not_constant():
    seen = job(train(Fleet(3), lambda step, rank: 4000 if step % 3 == rank else 3000, 6))
    assert not seen.imbalance.late_rank.is_constant
    low, high = seen.imbalance.loss_interval
    assert low < 0.2 * high


def test_while_the_host_is_still_launching_nothing_is_lost_by_waiting():
    fleet = Fleet(2)
    for _ in range(5):
        with fleet.step():
            for index, rank in enumerate(fleet.ranks):
                rank.op("aten::mm", kernels=[(GEMM, us(500 + 400 * index))])
            fleet.collective(us(100))
            for rank in fleet.ranks:
                rank.quiet(us(900))
                rank.op("aten::mm", kernels=[(GEMM, us(500))])
            for rank in fleet.ranks:
                rank.sync()
    seen = job(fleet)
    assert seen.meetings.waiting_ns[:, 0].min() > us(300)
    assert seen.imbalance.loss_interval[1] < 0.02


def test_one_rank_meets_nobody():
    seen = job(train(Fleet(1), lambda step, rank: 3000))
    assert len(seen.meetings) == 0
    assert seen.meetings.clock_error_s is None
    assert seen.imbalance.late_rank is None
    assert seen.imbalance.waiting_s.tolist() == [0.0]


def test_too_few_collectives_give_no_clock():
    seen = job(train(Fleet(2), lambda step, rank: 3000, 2, per_step=1))
    assert len(seen.meetings) == 2
    assert seen.meetings.clock_error_s is None
    assert not seen.meetings.is_decided.any()
