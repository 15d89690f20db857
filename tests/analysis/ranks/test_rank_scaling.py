"""The step on other numbers of ranks, on steps whose truth is known by construction."""

from __future__ import annotations

import numpy as np
import pytest

from whyidle.analysis.ranks import rank_scaling
from whyidle.analysis.ranks.rank_scaling import OwnSteps
from whyidle.model.documents.rank_scaling import Link

MB = 1_000_000


def link(bytes_per_s: float, latency_s: float = 0.0) -> Link:
    return Link(latency_s=latency_s, bytes_per_s=bytes_per_s, spread=0.1, source="given")


def steady(own: float, ready: list[float], steps: int = 20) -> OwnSteps:
    return OwnSteps(np.tile(ready, (steps, 1)), np.full(steps, own), steps, 0.0)


def test_one_rank_takes_its_own_work():
    seen = rank_scaling.simulate_step(steady(1.0, [0.5, 0.9]), np.array([MB, MB]), link(1.0), 1)
    assert seen.step == seen.own == seen.slowest == 1.0


def test_an_exchange_waits_for_its_bucket_and_for_the_one_before():
    # two ranks move the bytes once: 1 MB at 10 MB/s takes 0.1 s. The second bucket is ready at 0.9
    # and ends at 1.0 with the work, or the link is so slow that it waits for the first one
    sizes, steps = np.array([MB, MB]), steady(0.95, [0.5, 0.9])
    assert rank_scaling.simulate_step(steps, sizes, link(10 * MB), 2).step == pytest.approx(1.0)
    assert rank_scaling.simulate_step(steps, sizes, link(2 * MB), 2).step == pytest.approx(1.5)
    late = link(10 * MB, latency_s=0.2)  # a message there and one back
    assert rank_scaling.simulate_step(steps, sizes, late, 2).step == pytest.approx(1.5)


def test_more_ranks_move_more_bytes():
    sizes, steps = np.array([MB]), steady(0.5, [0.5])
    two, four = (rank_scaling.simulate_step(steps, sizes, link(MB), n).step for n in (2, 4))
    assert two == pytest.approx(0.5 + 1.0)
    assert four == pytest.approx(0.5 + 1.5)


def test_latency_grows_as_the_algorithm_says():
    count = rank_scaling.count_messages
    assert [count(n) for n in (1, 2, 4, 8, 1024)] == [0, 2, 4, 6, 20]
    assert [count(n, ring=True) for n in (2, 8, 1024)] == [2, 14, 2046]
    sizes, steps = np.array([0.0]), steady(0.5, [0.5])
    far = rank_scaling.simulate_step(steps, sizes, link(MB, 1e-4), 100_000, ring=True)
    assert far.step == pytest.approx(0.5 + 2e-4 * 99_999)


def test_the_slowest_of_n_is_the_expected_largest_of_n_draws():
    rng = np.random.default_rng(1)
    own = 1.0 + rng.exponential(0.1, 5000)
    steps = OwnSteps(own[:, None], own, len(own), 0.0)
    seen = rank_scaling.simulate_step(steps, np.array([0.0]), None, 8)
    expected = 1.0 + 0.1 * sum(1 / k for k in range(1, 9))  # of exponential draws
    assert seen.slowest == pytest.approx(expected, rel=0.01)
    together = OwnSteps(own[:, None], own, len(own), 1.0)
    alike = rank_scaling.simulate_step(together, np.array([0.0]), None, 8)
    assert alike.slowest == pytest.approx(alike.own)


def test_own_work_leaves_out_the_exchange():
    # end, end of the backward pass with its exchange, two gradients
    rank = np.array([[1.0, 0.9, 0.6, 0.3]] * 10)
    steps = rank_scaling.own_steps([rank, rank], [np.array([1]), np.array([0])])
    assert steps.own == pytest.approx(np.full(20, 0.1 + 0.6))
    assert steps.ready[0] == pytest.approx([0.4, 0.7])
    alone = rank_scaling.own_steps([rank], [np.array([1]), np.array([0])])
    assert alone.own == pytest.approx(np.full(10, 1.0))


def test_ranks_that_differ_together_are_correlated():
    rng = np.random.default_rng(2)
    common = rng.normal(1.0, 0.1, 50)
    rows = np.stack([common, common - 0.1, common - 0.2], axis=1)
    assert rank_scaling.own_steps([rows, rows], [np.array([0])]).correlation == pytest.approx(1.0)


def test_buckets_are_closed_by_the_tensor_that_fills_them():
    ready = np.array([[3.0, 2.0, 1.0, 0.5]])
    buckets = rank_scaling.pack_buckets([MB, MB, MB, MB], ready, MB, 2 * MB)
    assert [list(bucket) for bucket in buckets] == [[3], [2, 1], [0]]


def test_a_link_is_fitted_to_its_exchanges():
    rows = [(size, 4 * 1e-4 + size * 1.5 / 2e9) for size in (1000, 100_000, MB, 16 * MB)]
    fitted = rank_scaling.fit_link(rows, 4)
    assert fitted is not None
    assert fitted.latency_s == pytest.approx(1e-4, rel=0.01)
    assert fitted.bytes_per_s == pytest.approx(2e9, rel=0.01)
    assert rank_scaling.fit_link(rows[:1], 4) is None


def test_the_needed_link_and_batch_bring_the_asked_efficiency():
    sizes, steps = np.array([MB]), steady(1.0, [1.0])
    slow = link(2 * MB)  # the exchange adds half a second on two ranks
    needed = rank_scaling.needed_bandwidth(steps, sizes, slow, 2, 1.1)
    assert needed == pytest.approx(10 * MB, rel=0.01)
    assert rank_scaling.needed_batch(steps, sizes, slow, 2, 0.9) == 6.0
    assert rank_scaling.needed_bandwidth(steps, sizes, slow, 2, 0.9) is None
