"""What a fix costs once, and when it has paid."""

import math

import pytest

from whyidle.fix.statistics.startup_cost import RemainingJob, startup_cost


def test_it_pays_when_the_steps_have_brought_it_back():
    found = startup_cost([3.0, 3.1], [13.0, 13.1], (0.2, 0.1))
    assert found.seconds == pytest.approx(10.0)
    assert found.pays_after == pytest.approx(100.0)
    assert "10.0 s longer to start, recovered after 100 of 60 steps" in found.describe_cost(60)


def test_start_ups_that_scatter_cost_nothing():
    assert startup_cost([3.0, 5.0], [4.5, 6.0], (0.2, 0.1)).pays_after == 0.0
    assert startup_cost([3.0], [9.0], (0.2, 0.1)).seconds == 0.0  # one alone tells nothing of that
    assert startup_cost([3.0, 3.1], [2.0, 2.1], (0.2, 0.1)).seconds == 0.0


def test_what_brings_nothing_never_pays():
    assert startup_cost([3.0, 3.1], [13.0, 13.1], (0.1, 0.1)).pays_after == math.inf


def test_time_that_is_left_is_as_many_steps_as_fit():
    assert RemainingJob(steps=500).remaining_steps(0.1) == 500
    assert RemainingJob(seconds=60.0).remaining_steps(0.1) == pytest.approx(600)
