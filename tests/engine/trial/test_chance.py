"""How sure trials must be, one by one and all together."""

import math

import pytest

from whyidle.engine.trial.chance import ALONE, EARLY, WHOLE, Purse, beyond, share, student


@pytest.mark.parametrize(
    ("free", "chance", "point"),
    [
        (1, 0.025, 12.706),
        (2, 0.025, 4.303),
        (2, 0.005, 9.925),
        (3, 0.005, 5.841),
        (4, 0.0005, 8.610),
        (8, 0.005, 3.355),
        (14, 0.025, 2.145),
        (120, 0.025, 1.980),
    ],
)
def test_points_of_students_distribution_are_those_of_any_table(free, chance, point):
    assert student(chance, free) == pytest.approx(point, abs=6e-4)
    assert beyond(student(chance, free), free) == pytest.approx(chance)


def test_without_a_degree_of_freedom_nothing_is_known():
    assert student(ALONE, 0) == math.inf


def test_trials_that_find_nothing_never_spend_more_than_the_whole():
    purse, spent = Purse(), []
    for _ in range(1000):
        spent.append(purse.offer)
        purse.spend(proven=False)
    assert spent[0] == ALONE  # the first one is as easily kept as if it were alone
    assert spent == sorted(spent, reverse=True)
    assert WHOLE * 0.99 < sum(spent) < WHOLE


def test_a_proven_fix_hands_its_chance_on_and_one_that_is_not_does_not():
    purse = Purse()
    purse.spend(proven=True)
    assert purse.offer == pytest.approx(WHOLE / 2 + WHOLE / 6)
    purse.spend(proven=False)
    assert purse.offer == pytest.approx(WHOLE / 12)


def test_looks_at_one_trial_take_no_more_than_it_has():
    assert share(0.05, 1, last=False) == 0.05 * EARLY
    looks = [share(0.05, 1, last=False), share(0.05, 2, last=False), share(0.05, 3, last=True)]
    assert sum(looks) == pytest.approx(0.05)
    assert share(0.05, 1, last=True) == 0.05
