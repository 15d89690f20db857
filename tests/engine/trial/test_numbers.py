"""What each consent class allows of the losses."""

import random

import pytest

from whyidle.engine.trial.numbers import compare, distance

CHANCE = random.Random(1)
BASE = [2.0 * 0.99**i + CHANCE.gauss(0, 0.05) for i in range(100)]
OTHER = [2.0 * 0.99**i + CHANCE.gauss(0, 0.05) for i in range(100)]
THIRD = [2.0 * 0.99**i + CHANCE.gauss(0, 0.05) for i in range(100)]


@pytest.mark.parametrize("consent", ["none", "rounding", "numerics"])
def test_the_same_numbers_hold(consent):
    found = compare(consent, BASE, list(BASE))
    assert found.holds
    assert "bit for bit" in found.told


def test_of_two_lengths_what_both_have_is_compared():
    assert compare("none", BASE, BASE[:50]).holds


def test_one_other_bit_breaks_the_promise_of_the_same_numbers():
    treated = [*BASE[:60], BASE[60] + 1e-15, *BASE[61:]]
    assert treated != BASE
    found = compare("none", BASE, treated, again=list(BASE))
    assert not found.holds
    assert "step 61" in found.told
    assert compare("rounding", BASE, treated, again=list(BASE)).holds


def test_a_job_that_never_repeats_itself_is_held_to_its_own_scatter():
    assert compare("none", BASE, OTHER, again=THIRD).holds
    worse = [loss + 0.5 for loss in OTHER]
    assert not compare("none", BASE, worse, again=THIRD).holds


def test_other_random_order_is_as_far_apart_as_other_seeds_are():
    assert not compare("rounding", BASE, OTHER).holds
    assert compare("rounding", BASE, OTHER, other=THIRD).holds


def test_what_learns_worse_does_not_hold():
    stuck = [BASE[0]] * 100
    assert not compare("rounding", BASE, stuck, other=THIRD).holds


def test_a_loss_that_is_no_number_does_not_hold():
    treated = [*BASE[:50], float("nan"), *BASE[51:]]
    assert not compare("numerics", BASE, treated, other=THIRD).holds


def test_nothing_seen_is_nothing_proven_where_numbers_may_move():
    assert compare("none", [], []).holds
    assert not compare("numerics", [], []).holds


def test_distance_is_none_of_itself_and_grows_with_the_difference():
    assert distance(BASE, BASE) == 0.0
    assert distance([1.0] * 10, [1.1] * 10) == pytest.approx(0.1)
