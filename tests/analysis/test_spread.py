"""The bootstrap interval holds what it promises, for few samples too."""

from __future__ import annotations

import numpy as np
import pytest

from whyidle.analysis import spread
from whyidle.analysis.spread import ratio_of_means


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
    monkeypatch.setattr(spread, "RESAMPLES", 400)
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
