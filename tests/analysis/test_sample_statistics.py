"""The bootstrap interval holds what it promises, for few samples too."""

from __future__ import annotations

import numpy as np
import pytest

from whyidle.analysis import sample_statistics
from whyidle.analysis.sample_statistics import ratio_error, ratio_of_means


def test_constant_samples_have_no_spread():
    assert ratio_of_means([2.0, 2.0], [3.0, 3.0]) == pytest.approx((1.5, 1.5, 1.5))


@pytest.mark.parametrize(("a", "b"), [([1.0], [1.0, 2.0]), ([], []), ([1.0, 0.0], [1.0, 1.0])])
def test_too_little_to_tell(a: list[float], b: list[float]):
    assert ratio_of_means(a, b) is None


def test_deterministic():
    a, b = [1.0, 1.1, 1.3], [0.9, 1.2, 1.0]
    assert ratio_of_means(a, b) == ratio_of_means(a, b)


@pytest.mark.parametrize("n", [3, 6, 30])
def test_covers_no_change_as_often_as_it_says(n: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sample_statistics, "RESAMPLES", 400)
    random = np.random.default_rng(1)
    trials, held = 200, 0
    for _ in range(trials):
        a, b = random.lognormal(0.0, 0.2, (2, n))
        found = ratio_of_means(list(a), list(b))
        assert found is not None
        held += found.low <= 1.0 <= found.high
    assert held / trials >= 0.90


def test_long_recordings_are_resampled_in_pieces():
    random = np.random.default_rng(2)
    a = list(random.lognormal(0.0, 0.1, 3000))
    found = ratio_of_means(a, [2.0 * x for x in a])
    assert found is not None
    assert found.low < 2.0 < found.high
    assert found.high / found.low < 1.03


def test_a_share_that_is_the_same_in_all_steps_is_sure():
    whole = np.array([1.0, 3.0] * 20)
    assert ratio_error(0.2 * whole, whole) == pytest.approx(0.0, abs=1e-9)
    assert ratio_error(np.array([0.2]), np.array([1.0])) == 0.0


def test_a_share_holds_the_truth_as_often_as_it_says():
    """An update of a fifth of a step that scatters by a half; and by more where neighbours are
    alike, as beside another program, than an interval from single steps would allow."""
    random = np.random.default_rng(5)
    for alike, least in ((1, 0.91), (4, 0.85)):
        held = 0
        for _ in range(400):
            rest = np.repeat(random.lognormal(0.0, 0.5, 48 // alike), alike)
            half = ratio_error(np.full(48, 0.25), rest + 0.25)
            truth = 0.25 / (0.25 + np.exp(0.125))
            held += abs(12.0 / (rest.sum() + 12.0) - truth) <= half
        assert held / 400 >= least
