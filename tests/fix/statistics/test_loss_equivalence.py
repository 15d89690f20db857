"""What each consent class allows of what a treated run learns."""

import math
import random
from dataclasses import replace

import pytest

from whyidle.fix.arms.process_report import ProcessReport
from whyidle.fix.statistics import loss_equivalence
from whyidle.fix.statistics.loss_equivalence import BaselineRuns, loss_distance

CHANCE = random.Random(1)
BASE = [2.0 * 0.99**i + CHANCE.gauss(0, 0.05) for i in range(100)]
OTHER = [2.0 * 0.99**i + CHANCE.gauss(0, 0.05) for i in range(100)]
THIRD = [2.0 * 0.99**i + CHANCE.gauss(0, 0.05) for i in range(100)]


def told(losses, moved=1.0):
    return ProcessReport(ended="stopped", begun=0, marks=[], losses=list(losses), moved=moved)


def compare(consent, base, treated, redrawn=False, swayed=(), **known):
    """``known``: losses of an untreated run ``again``, or with ``other`` seeds."""
    runs = {name: told(losses) for name, losses in known.items()}
    untreated = BaselineRuns(told(base), swayed=[told(one) for one in swayed], **runs)
    return loss_equivalence.check_losses(consent, untreated, told(treated), redrawn=redrawn)


@pytest.mark.parametrize("consent", ["none", "rounding", "numerics"])
def test_the_same_numbers_hold(consent):
    found = compare(consent, BASE, list(BASE))
    assert found.holds
    assert "bitwise equal" in found.explanation


def test_of_two_lengths_what_both_have_is_compared():
    assert compare("none", BASE, BASE[:50]).holds


def test_one_other_bit_breaks_the_promise_of_the_same_numbers():
    treated = [*BASE[:60], BASE[60] + 1e-15, *BASE[61:]]
    assert treated != BASE
    found = compare("none", BASE, treated, again=BASE)
    assert not found.holds
    assert "loss 61" in found.explanation
    assert compare("rounding", BASE, treated, again=BASE).holds


def test_a_job_that_never_repeats_itself_is_held_to_its_own_scatter():
    assert compare("none", BASE, OTHER, again=THIRD).holds
    worse = [loss + 0.5 for loss in OTHER]
    assert not compare("none", BASE, worse, again=THIRD).holds


def test_what_varies_is_told_as_that_and_never_as_rounding():
    """Single losses, ten times as far apart as two runs were, would let nearly all of it pass."""
    worse = [loss * 1.25 for loss in OTHER]
    for treated, holds in ((OTHER, True), (worse, False)):
        found = compare("none", BASE, treated, again=THIRD)
        assert found.holds == holds
        assert "is not reproducible: two unchanged runs differ by up to" in found.explanation
        assert "from step 1 on" in found.explanation
        assert "3 times as much is accepted" in found.explanation
        assert "order of sums" not in found.explanation
    again = [*BASE[:7], *astray(1e-7)[7:]]
    found = compare("none", BASE, astray(2e-7), again=again)
    assert found.holds
    assert "from step 8 on" in found.explanation
    assert "accepted up to" in found.explanation


def test_more_untreated_runs_tell_better_how_far_it_varies():
    untreated = BaselineRuns(told(BASE), again=told([loss * 1.002 for loss in BASE]))
    further = replace(untreated, more=[told(THIRD)])
    assert not loss_equivalence.check_losses("none", untreated, told(OTHER)).holds
    assert loss_equivalence.check_losses("none", further, told(OTHER)).holds


def test_other_random_order_is_as_far_apart_as_other_seeds_are():
    assert not compare("rounding", BASE, OTHER, redrawn=True).holds
    assert compare("rounding", BASE, OTHER, other=THIRD, redrawn=True).holds


def astray(by, rate=1.05):
    """The base, led astray by a rounding that grows with the steps."""
    return [loss + by * rate**i * CHANCE.choice((-1, 1)) for i, loss in enumerate(BASE)]


def test_another_order_of_sums_is_held_to_what_other_rounding_does_to_the_job_itself():
    """Other seeds would let all of these pass."""
    swayed = [astray(1e-7)]
    assert compare("rounding", BASE, astray(3e-7), swayed=swayed).holds
    assert not compare("rounding", BASE, astray(3e-6), swayed=swayed).holds
    worse = [loss * (1 + 1e-5 * i) for i, loss in enumerate(BASE)]
    found = compare("rounding", BASE, worse, other=THIRD, swayed=swayed)
    assert not found.holds
    assert "rounding allows" in found.explanation
    assert compare("rounding", BASE, worse, other=THIRD, redrawn=True).holds


def test_a_job_that_other_rounding_leads_far_astray_is_held_in_the_mean():
    """From step 41 on single losses say nothing any more."""
    swayed = [*BASE[:40], *OTHER[40:]]
    assert compare("rounding", BASE, [*BASE[:40], *THIRD[40:]], swayed=[swayed]).holds
    worse = [*BASE[:40], *(loss + 0.3 for loss in THIRD[40:])]
    assert not compare("rounding", BASE, worse, swayed=[swayed]).holds
    early = [*BASE[:5], *THIRD[5:]]
    assert not compare("rounding", BASE, early, swayed=[swayed]).holds


def test_untreated_runs_that_differ_are_the_measure_too():
    again = astray(1e-7)
    assert compare("none", BASE, astray(2e-7), again=again).holds
    assert not compare("none", BASE, astray(2e-5), again=again).holds


def test_parameters_must_be_the_same_where_losses_are():
    untreated = BaselineRuns(ProcessReport("stopped", 0, [], BASE, norm=1.5))
    same = ProcessReport("stopped", 0, [], BASE, norm=1.5)
    other = ProcessReport("stopped", 0, [], BASE, norm=1.5000001)
    assert loss_equivalence.check_losses("none", untreated, same).holds
    assert not loss_equivalence.check_losses("none", untreated, other).holds
    assert loss_equivalence.check_losses("rounding", untreated, other).holds


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
    untreated = BaselineRuns(told([], moved=0.5))
    assert loss_equivalence.check_losses("none", untreated, told([], moved=0.5)).holds
    assert not loss_equivalence.check_losses("none", untreated, told([], moved=0.5000001)).holds
    assert not loss_equivalence.check_losses("rounding", untreated, told([], moved=0.5)).holds
    assert not loss_equivalence.check_losses(
        "none", BaselineRuns(told([], None)), told([], None)
    ).holds


@pytest.mark.parametrize(
    ("consent", "moved", "given", "holds"),
    [
        ("none", (None, None, None), [1, 2, 3], True),
        ("none", (None, None, None), [1, 2], True),  # it was stopped one step earlier
        ("none", (0.5, 0.51, 0.52), [1, 2, 3], True),  # the job is not reproducible
        ("none", (0.5, 0.5, 0.52), [1, 2, 3], False),  # it is: the fix changed the numbers
        ("none", (None, None, None), [1, 3, 2], False),
        ("none", (None, None, None), [], False),
        ("rounding", (None, None, None), [1, 2, 3], False),
    ],
)
def test_without_losses_the_same_batches_in_order_are_the_same_data(consent, moved, given, holds):
    base, again, treated = (
        replace(told([], moved=each), batches=batches)
        for each, batches in zip(moved, ([1, 2, 3], [1, 2, 3], given), strict=True)
    )
    found = loss_equivalence.check_losses(consent, BaselineRuns(base, again), treated)
    assert found.holds == holds
    assert ("batches are the same" in found.explanation) == holds


@pytest.mark.parametrize("consent", ["none", "rounding", "numerics"])
@pytest.mark.parametrize("moved", [0.0, 0.4, 2.5, math.nan])
def test_what_learns_nothing_does_not_hold_however_its_losses_look(consent, moved):
    untreated = BaselineRuns(told(BASE), other=told(THIRD))
    found = loss_equivalence.check_losses(consent, untreated, told(OTHER, moved))
    assert not found.holds
    assert "parameters" in found.explanation


def test_distance_is_none_of_itself_and_grows_with_the_difference():
    assert loss_distance(BASE, BASE) == 0.0
    assert loss_distance([1.0] * 10, [1.1] * 10) == pytest.approx(0.1)


def test_of_a_run_that_tells_every_fifth_loss_only_these_are_compared():
    known = range(4, 100, 5)
    told_losses = [BASE[4 + i // 5 * 5] for i in range(100)]
    treated = replace(told(told_losses), known=known)
    assert loss_equivalence.check_losses("none", BaselineRuns(told(BASE)), treated).holds
    wrong = replace(told([loss + (i == 9) for i, loss in enumerate(told_losses)]), known=known)
    found = loss_equivalence.check_losses("none", BaselineRuns(told(BASE), told(BASE)), wrong)
    assert not found.holds
