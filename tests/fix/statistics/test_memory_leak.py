"""Memory that grows: what is a leak, and what is not."""

import random

import pytest

from whyidle.fix.statistics.memory_leak import fit_slope


def held(grow, count=60, scatter=2e4, seed=0):
    draw = random.Random(seed)
    return list(range(count)), [1e9 + grow(step) + draw.gauss(0, scatter) for step in range(count)]


def test_a_line_has_its_slope_whatever_peaks_are_on_it():
    steps, bytes_ = held(lambda step: 1e4 * step)
    for peak in (7, 23, 24, 51):
        bytes_[peak] += 5e8
    found = fit_slope(steps, bytes_)
    assert found.each == pytest.approx(1e4, rel=0.1)
    assert found.late > found.early / 2
    assert found.error < found.each / 5


def test_what_fills_up_grows_ever_more_slowly():
    found = fit_slope(*held(lambda step: 1e7 * (1 - 0.9**step)))
    assert found.early > 0
    assert found.late < found.early / 4


def test_what_only_scatters_has_a_slope_within_its_error():
    found = [fit_slope(*held(lambda step: 0.0, seed=seed)) for seed in range(40)]
    within = sum(abs(one.each) < 2 * one.error for one in found)
    assert within >= 30


@pytest.mark.parametrize("count", [0, 1, 7])
def test_too_few_samples_say_nothing(count):
    assert fit_slope(*held(lambda step: 1e6 * step, count)) is None
