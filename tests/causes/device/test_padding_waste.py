"""The cost of padding is the cost that the steps themselves show."""

import random
from dataclasses import replace

import numpy as np
import pytest

from cured_twins import covers, judge
from watched_run import loader_facts
from whyidle import catalog
from whyidle.model.loader_tables import PADDING, Loading
from whyidle.testing.builder import ms
from whyidle.testing.contracts import Pair
from whyidle.testing.recorded_job import RecordedJob

CAUSE = "padding-waste"
LOOP = "/job/train.py(20): <module>"
ROWS = 16
COLLATE = {"collating": "/job/data.py(8): collate", "making": None, "asked": "/job/train.py(20): f"}


def lengths(rng, spread, longest=400):
    return [rng.randint(int(longest * (1 - spread)), longest) for _ in range(ROWS)]


def widened(longest, *, fixed=0, multiple=1, told=0):
    """As wide as the longest row, rounded up to a ``multiple``, less the last positions that are to
    be ``told``; or ``fixed``."""
    return fixed or -(-longest // multiple) * multiple - told


def train(spread, cost, *, steps=60, value=0, longest=400, **width):
    """A step costs 5 ms, ``cost(real, all)`` ms, and 1 ms for its ``update`` if not told otherwise;
    how wide batches are see ``widened``. Returns the recording, and how long its steps are, ms."""
    update = width.pop("update", 1)
    rng, job, rows, total = random.Random(3), RecordedJob(), [], 0.0
    for _ in range(steps):
        sizes = lengths(rng, spread, rng.randint(longest // 4, longest))
        length = widened(max(sizes), **width)
        job.batch(ms(1))
        row = sum(sizes), ROWS * length, ROWS * max(sizes), value, ROWS, 1
        took = 5 + cost(sum(sizes), ROWS * length)
        rows.append((job.now, *row))
        total += took + 1 + update
        job.work(LOOP, ms(took * rng.uniform(0.97, 1.03)))
        job.step(LOOP, ms(update))
    timeline = job.timeline()
    table = np.array(rows, dtype=PADDING)
    table["time"] -= timeline.base_ns
    loading = Loading(padding=table, loaders=loader_facts(COLLATE))
    return replace(timeline, loading=loading), total / steps


def all_positions(real, total):
    return total / 200


def real_positions(real, total):
    return real / 200


def neither(real, total):
    return 25.0


def test_the_prediction_covers_a_step_without_padding():
    sick, slow = train(0.9, all_positions)
    _, fast = train(0.9, real_positions)
    proof = judge(CAUSE, sick)
    assert proof
    assert proof.confidence > 0.8
    assert proof.low > 0.2
    assert covers(proof, slow / fast)
    assert (proof.where[0].file, proof.where[0].line) == ("/job/data.py", 8)


@pytest.mark.parametrize("cost", [real_positions, neither])
def test_a_step_that_does_not_depend_on_padding_claims_little(cost):
    job, _ = train(0.9, cost)
    proof = judge(CAUSE, job)
    assert proof is None or proof.high < 0.05


def test_rounding_a_length_up_to_a_multiple_of_eight_is_no_waste():
    """Short rows: most of their padding is rounding, and it costs what all positions do."""
    short = {"spread": 0.04, "cost": all_positions, "longest": 60}
    assert judge(CAUSE, train(**short, multiple=8)[0]) is None
    assert judge(CAUSE, train(**short, multiple=8, told=1)[0]) is None
    wasteful = judge(CAUSE, train(**short, multiple=24)[0])  # as a fixed maximum would be
    assert wasteful
    assert wasteful.facts.beyond_longest > 0.5


def test_steps_of_one_length_that_do_not_follow_what_is_real_pay_for_padding():
    sick, slow = train(0.9, all_positions, fixed=512)
    _, fast = train(0.9, real_positions)
    proof = judge(CAUSE, sick)
    assert proof
    assert proof.low > 0.2
    assert proof.confidence > 0.8
    assert proof.facts.beyond_longest > 0.4
    assert covers(proof, slow / fast)
    assert 1 / proof.predicted.speedup == pytest.approx(fast / slow, abs=0.12)
    plans = catalog.load_fixes()
    assert plans["pad-to-longest"].decide(proof)
    longest, _ = train(0.9, all_positions)
    assert plans["pad-to-longest"].decide(judge(CAUSE, longest)) is None


def test_the_optimizer_s_work_does_not_depend_on_padding():
    light, _ = train(0.9, all_positions, fixed=512)
    heavy, _ = train(0.9, all_positions, fixed=512, update=40)
    assert judge(CAUSE, heavy).facts.expected < 0.7 * judge(CAUSE, light).facts.expected


def test_one_length_in_few_steps_may_be_skipped():
    """The more so where it is lengths that tell: recurrent layers take them to skip padding."""
    job, _ = train(0.9, all_positions, fixed=512, steps=8)
    masks = judge(CAUSE, job)
    job.loading.padding["told_by"] = 2
    sizes = judge(CAUSE, job)
    for proof in (masks, sizes):
        assert proof.low == 0.0
        assert proof.confidence <= 0.5
    assert 0.0 < sizes.facts.expected < 0.6 * masks.facts.expected


def test_a_run_too_short_for_a_fit_is_no_warning():
    job, _ = train(0.9, all_positions, steps=8)
    proof = judge(CAUSE, job)
    assert proof
    assert proof.predicted.speedup == 1.0


def test_one_length_for_all_but_the_step_follows_what_is_real():
    job, _ = train(0.9, real_positions, fixed=512)
    assert judge(CAUSE, job) is None


def test_rows_that_end_in_many_different_numbers_are_not_padded():
    job, _ = train(0.9, all_positions)
    table = job.loading.padding
    table["told_by"], table["value"] = 4, np.arange(len(table))
    assert judge(CAUSE, job) is None


PAIRS = {
    CAUSE: Pair(
        sick=lambda: train(0.9, all_positions)[0],
        healthy=lambda: train(0.04, all_positions)[0],
    )
}
