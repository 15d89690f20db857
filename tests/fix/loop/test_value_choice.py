"""The smallest number that is about as fast as the fastest is kept."""

import resource

import pytest

from whyidle.fix.loop.value_search import choose_value, workers_within_limits


def test_four_times_the_workers_must_bring_more_than_a_twentieth():
    assert choose_value({11: 11.2e-3, 22: 11.0e-3, 44: 10.8e-3}) == 11


def test_what_is_really_slower_is_not_kept_for_its_size():
    assert choose_value({2: 20e-3, 4: 12e-3, 8: 11.8e-3}) == 4


@pytest.mark.parametrize(("steps_left", "kept"), [(200, 4), (100_000, 16), (None, 16)])
def test_a_short_job_does_not_pay_for_a_long_start(steps_left, kept):
    startup_s = {4: 1.0, 16: 6.0}
    steps = {4: 20e-3, 16: 10e-3}
    assert choose_value(steps, startup_s=startup_s, steps_left=steps_left) == kept


def test_limits_are_not_used_up():
    anything = resource.RLIM_INFINITY
    assert workers_within_limits(1024, anything) == 42
    assert workers_within_limits(anything, 64) == 8
    assert workers_within_limits(1024, 64) == 8
    assert workers_within_limits(4, anything) == 1
    assert workers_within_limits(anything, anything) is None
