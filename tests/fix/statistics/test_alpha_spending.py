"""How sure trials must be, one by one and all together."""

import math

import pytest

from whyidle.fix.statistics.alpha_spending import (
    ALONE,
    EARLY,
    WHOLE,
    AlphaBudget,
    alpha_share,
    student_quantile,
    student_tail,
)


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
    assert student_quantile(chance, free) == pytest.approx(point, abs=6e-4)
    assert student_tail(student_quantile(chance, free), free) == pytest.approx(chance)


def test_without_a_degree_of_freedom_nothing_is_known():
    assert student_quantile(ALONE, 0) == math.inf


def test_trials_that_find_nothing_never_spend_more_than_the_whole():
    purse, spent = AlphaBudget(), []
    for _ in range(1000):
        spent.append(purse.next_alpha)
        purse.spend_alpha(proven=False)
    assert spent[0] == ALONE  # the first one is as easily kept as if it were alone
    assert spent == sorted(spent, reverse=True)
    assert WHOLE * 0.99 < sum(spent) < WHOLE


def test_a_proven_fix_hands_its_chance_on_and_one_that_is_not_does_not():
    purse = AlphaBudget()
    purse.spend_alpha(proven=True)
    assert purse.next_alpha == pytest.approx(WHOLE / 2 + WHOLE / 6)
    purse.spend_alpha(proven=False)
    assert purse.next_alpha == pytest.approx(WHOLE / 12)


def test_looks_at_one_trial_take_no_more_than_it_has():
    assert alpha_share(0.05, 1, last=False) == 0.05 * EARLY
    looks = [
        alpha_share(0.05, 1, last=False),
        alpha_share(0.05, 2, last=False),
        alpha_share(0.05, 3, last=True),
    ]
    assert sum(looks) == pytest.approx(0.05)
    assert alpha_share(0.05, 1, last=True) == 0.05
