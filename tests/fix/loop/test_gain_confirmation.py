"""More pairs of what is kept: until its interval is narrow, or something speaks against it."""

from dataclasses import replace

import pytest
from made_arms import FIX, bench, ran

from whyidle.fix.loop.ab_test import run_ab_test
from whyidle.fix.loop.optimize import ROUGH, confirm_gain, is_wide, update_gain
from whyidle.fix.loop.trial_result import MOST

BASES = [ran(0.100 * way) for way in (0.94, 1.06, 0.97, 1.03, 1.0, 1.0)]
TREATS = [ran(0.025 * way) for way in (1.05, 0.95, 1.02, 0.98, 1.0, 1.0)]


@pytest.fixture
def found():
    """Kept after two pairs, by a wide interval."""
    kept = run_ab_test(FIX, bench(BASES[:2], TREATS[:2]), ())
    assert kept.kept
    assert len(kept.bases) == 2
    assert is_wide(kept.effect)
    return kept


def test_pairs_are_added_until_the_interval_is_narrow(found):
    wide = found.effect
    confirm_gain(found, bench(BASES[2:], TREATS[2:]), ())
    assert found.kept
    assert 2 < len(found.bases) == len(found.treats) == found.effect.pairs <= MOST
    assert found.effect.high <= ROUGH * found.effect.low
    assert wide.low < found.effect.low < 4.0 < found.effect.high < wide.high


def test_without_time_it_is_told_by_the_pairs_that_there_are(found):
    wide = found.effect
    confirm_gain(found, bench((), (), affordable=False), ())
    assert found.effect.pairs == 2
    assert found.effect.speedup == wide.speedup
    assert wide.low < found.effect.low < found.effect.high < wide.high


def test_what_is_narrow_already_runs_no_more():
    found = run_ab_test(FIX, bench([ran(0.1)] * 2, [ran(0.05)] * 2), ())
    confirm_gain(found, bench((), ()), ())
    assert found.effect.pairs == 2


def test_it_ends_with_the_most_pairs_however_rough(found):
    ways = [1.3, 0.7, 1.4, 0.6]
    confirm_gain(
        found, bench([ran(0.1 * way) for way in ways], [ran(0.025 / way) for way in ways]), ()
    )
    assert len(found.bases) == MOST
    assert is_wide(found.effect)
    assert found.kept


def test_what_fails_in_one_of_them_is_kept_no_longer(found):
    crashed = replace(ran(0.1), ending="crashed", output_end="boom", report=None)
    confirm_gain(found, bench(BASES[2:], [crashed]), ())
    assert not found.kept
    assert "rolled back: with it, the job crashed (boom)" in found.rejection_text


def test_a_job_that_fails_without_it_says_nothing_against_it(found):
    crashed = replace(ran(0.1), ending="crashed", report=None)
    confirm_gain(found, bench([crashed], TREATS[2:]), ())
    assert found.kept
    assert not found.rejection_text
    assert len(found.bases) == len(found.treats) == found.effect.pairs == 2


def test_what_turns_out_to_gain_nothing_is_kept_no_longer(found):
    confirm_gain(found, bench([ran(0.03), ran(0.02)], [ran(0.1), ran(0.2)]), ())
    assert not found.kept
    assert "significant" in found.rejection_text


def test_ctrl_c_leaves_what_was_known(found):
    confirm_gain(found, bench([KeyboardInterrupt()], [TREATS[2]]), ())
    assert found.kept
    assert len(found.bases) == len(found.treats) == found.effect.pairs == 2
    assert not found.rejection_text


def test_an_interval_that_would_speak_against_what_was_decided_is_not_told(found):
    """What other trials scatter by is known later; the decision stands as it was taken."""
    decided = found.effect
    update_gain(found, [[0.1, 0.9]] * 3)
    assert found.effect is decided
