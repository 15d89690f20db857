"""What each consent class allows of what a treated run learns."""

import math
import random

import pytest

from whyidle.engine.trial import numbers
from whyidle.engine.trial.numbers import Untreated, distance
from whyidle.engine.trial.told import Told

CHANCE = random.Random(1)
BASE = [2.0 * 0.99**i + CHANCE.gauss(0, 0.05) for i in range(100)]
OTHER = [2.0 * 0.99**i + CHANCE.gauss(0, 0.05) for i in range(100)]
THIRD = [2.0 * 0.99**i + CHANCE.gauss(0, 0.05) for i in range(100)]


def told(losses, moved=1.0):
    return Told(ended="stopped", begun=0, marks=[], losses=list(losses), moved=moved)


def compare(consent, base, treated, again=None, other=None):
    known = [None if one is None else told(one) for one in (again, other)]
    return numbers.compare(consent, Untreated(told(base), *known), told(treated))


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
    found = compare("none", BASE, treated, again=BASE)
    assert not found.holds
    assert "loss 61" in found.told
    assert compare("rounding", BASE, treated, again=BASE).holds


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


def test_losses_that_are_no_numbers_in_either_are_the_same():
    odd = [*BASE[:50], math.nan, math.inf, *BASE[50:]]
    assert compare("none", odd, list(odd)).holds


def test_without_a_loss_the_way_of_the_parameters_is_all_there_is():
    untreated = Untreated(told([], moved=0.5))
    assert numbers.compare("none", untreated, told([], moved=0.5)).holds
    assert not numbers.compare("none", untreated, told([], moved=0.5000001)).holds
    assert not numbers.compare("rounding", untreated, told([], moved=0.5)).holds
    assert not numbers.compare("none", Untreated(told([], None)), told([], None)).holds


@pytest.mark.parametrize("consent", ["none", "rounding", "numerics"])
@pytest.mark.parametrize("moved", [0.0, 0.4, 2.5, math.nan])
def test_what_learns_nothing_does_not_hold_however_its_losses_look(consent, moved):
    untreated = Untreated(told(BASE), other=told(THIRD))
    found = numbers.compare(consent, untreated, told(OTHER, moved))
    assert not found.holds
    assert "parameters" in found.told


def test_distance_is_none_of_itself_and_grows_with_the_difference():
    assert distance(BASE, BASE) == 0.0
    assert distance([1.0] * 10, [1.1] * 10) == pytest.approx(0.1)
