"""Steps skipped by gradient scaling are told where its search for a scale does not explain them."""

from dataclasses import replace

import pytest

from watched_run import add_facts
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.testing.builder import Builder, ms, us


def notes(*skipped):
    """Of ranks of 40 steps each."""
    made = Builder()
    for _ in range(40):
        with made.step():
            made.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", ms(3))])
            made.optimizer(kernels=[("elementwise_kernel", us(3))], name="Adam")
    timeline = made.timeline()
    ranks = [
        add_facts(replace(timeline, rank=rank, world_size=len(skipped)), {"skipped_steps": count})
        for rank, count in enumerate(skipped)
    ]
    return [note for note in diagnose_job(ranks).coverage.notes if "skipped" in note]


def test_many_skipped_steps_are_told():
    (note,) = notes(30)
    assert note.startswith("gradient scaling skipped 30 of 40 optimizer steps")
    assert "explains at most 16" in note


def test_the_worst_rank_counts():
    (note,) = notes(0, 25)
    assert "skipped 25 of" in note


@pytest.mark.parametrize("skipped", [None, 0, 16])
def test_a_scale_that_is_searched_for_is_no_news(skipped):
    assert notes(skipped) == []
