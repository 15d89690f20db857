"""When a burst is worth it."""

import pytest

from whyidle.probe.core import burst_budget


def ends(*lengths_s):
    at, found = 0, [0]
    for length in lengths_s:
        at += int(length * 1e9)
        found.append(at)
    return found


def test_the_present_is_two_seconds_or_eight_steps():
    assert len(burst_budget.present_lengths(ends(*[0.1] * 100))) == 20
    assert len(burst_budget.present_lengths(ends(*[5.0] * 100))) == burst_budget.RECENT_STEPS
    assert burst_budget.present_lengths([]) == []


@pytest.mark.parametrize(
    ("lengths", "steady"),
    [([1.0] * 8, True), ([1.0] * 7, False), ([2.0] * 4 + [1.0] * 4, False), ([1, 9] * 6, True)],
)
def test_steps_are_steady_when_both_halves_are_alike(lengths, steady):
    assert burst_budget.is_steady(lengths) == steady


@pytest.mark.parametrize(
    ("now", "other"),
    [((1.2, 0.0), False), ((1.4, 0.0), True), ((0.7, 0.0), True), ((1.0, 0.4), True)],
)
def test_a_picture_changes_by_a_third(now, other):
    assert burst_budget.has_changed((1.0, 0.0), now) == other


def test_the_first_burst_waits_until_it_is_cheap():
    price = burst_budget.price_s(
        3 * burst_budget.estimate_events(23, 40, together=False), cuda=False
    )
    assert 0.02 < price < 0.1
    first = burst_budget.first_needed_s(price)
    assert price / first == burst_budget.FIRST_SHARE
    assert burst_budget.first_needed_s(burst_budget.FIRST_S + 0.1) == float("inf")
    assert burst_budget.needed_s(price, 0.0) == 10 * first  # what any later one needs
    assert burst_budget.needed_s(price, 0.2) > 30.0
    assert burst_budget.price_s(1000, cuda=True) > burst_budget.price_s(1000, cuda=False)
