"""A recorded step of several ranks with one thing changed: the truth is another job."""

from __future__ import annotations

import pytest

from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.job import Job
from whyidle.diagnosis.detail_tables import find_what_ifs
from whyidle.testing.builder import us
from whyidle.testing.contracts import Fleet


def job(*, late_us: float = 0, transfer_us: float = 500, buckets: int = 1, steps: int = 6) -> Job:
    """Three ranks of ten layers each; the last rank's take longer. Buckets of gradients travel
    after every layer of the second half, and the last one after all."""
    fleet = Fleet(3)
    for _ in range(steps):
        with fleet.step():
            for layer in range(10):
                for index, rank in enumerate(fleet.ranks):
                    cost = 400 + late_us * (index == 2)
                    rank.op("aten::mm", kernels=[("ampere_sgemm_128x64_nn", us(cost))])
                if layer >= 10 - buckets:
                    fleet.collective(us(transfer_us), elements=2_500_000)
            fleet.join()
            for rank in fleet.ranks:
                rank.optimizer([("multi_tensor_apply_kernel", us(50))])
    return Job(tuple(Facts(timeline) for timeline in fleet.timelines()))


def step_s(made: Job) -> float:
    return max(facts.step_s for facts in made.ranks)


@pytest.mark.parametrize("buckets", [1, 4])
def test_without_the_late_rank_the_step_is_that_of_the_others(buckets):
    found = {row.name: row.step_s for row in find_what_ifs(job(late_us=100, buckets=buckets))}
    assert found["without rank 2"] == pytest.approx(step_s(job(buckets=buckets)), rel=0.03)


@pytest.mark.parametrize(("late_us", "buckets"), [(0, 1), (100, 1), (0, 4), (100, 4)])
def test_a_link_twice_as_fast(late_us, buckets):
    sick = job(late_us=late_us, buckets=buckets, transfer_us=900)
    found = {row.name: row.step_s for row in find_what_ifs(sick)}
    truth = step_s(job(late_us=late_us, buckets=buckets, transfer_us=450))
    assert step_s(sick) > 1.04 * truth
    assert found["with a link twice as fast"] == pytest.approx(truth, rel=0.03)


def test_nothing_is_said_of_one_rank_or_of_few_steps():
    several = job()
    assert find_what_ifs(Job(several.ranks[:1])) == []
    assert find_what_ifs(job(steps=2)) == []
