"""What becomes of a fix, from arms that are made up."""

import math
import random
from dataclasses import replace

import psutil
import pytest
from made_arms import FIX, LOSSES, bench, crowd, ran, several, telling

from whyidle.fix.arms.process_report import ProcessReport
from whyidle.fix.arms.process_tree import TreeSample
from whyidle.fix.loop.ab_test import run_ab_test
from whyidle.fix.loop.acceptance import HARM
from whyidle.fix.loop.trial_result import MOST
from whyidle.fix.statistics.alpha_spending import WHOLE, AlphaBudget
from whyidle.fix.statistics.startup_cost import RemainingJob
from whyidle.model.diagnosis import Edit


def test_a_clear_gain_with_the_same_numbers_is_kept_after_two_pairs():
    found = run_ab_test(FIX, bench([ran(0.2), ran(0.201)], [ran(0.1), ran(0.1)]), [])
    assert found.kept
    assert found.effect.pairs == 2
    assert found.effect.speedup == pytest.approx(2.0, rel=0.01)


def test_other_numbers_are_rolled_back_however_fast():
    other = [*LOSSES[:20], 5.0, *LOSSES[21:]]
    found = run_ab_test(FIX, bench([ran(0.2)], [ran(0.1, other)]), [])
    assert not found.kept
    assert "loss 21" in found.rejection_text


def test_chance_alone_is_rarely_taken_for_a_gain():
    """A thousand fixes that do nothing, arms that scatter by 4 %: looked at after each pair."""
    chance, kept = random.Random(2), 0
    for _ in range(1000):
        arms = [[ran(0.1 * math.exp(chance.gauss(0, 0.04))) for _ in range(MOST)] for _ in range(2)]
        kept += run_ab_test(FIX, bench(*arms), []).kept
    assert kept <= 40


def test_of_many_fixes_that_do_nothing_hardly_ever_one_is_kept():
    """Six in each of 200 healings, arms that scatter by 4 %; at 95 % each it was in one of 8."""
    chance, wrong = random.Random(7), 0
    for _ in range(200):
        purse, alike, kept = AlphaBudget(), [], False
        for _ in range(6):
            arms = [
                [ran(0.1 * math.exp(chance.gauss(0, 0.04)), LOSSES[:14]) for _ in range(MOST)]
                for _ in range(2)
            ]
            found = run_ab_test(FIX, bench(*arms), alike, purse.next_alpha)
            purse.spend_alpha(proven=found.is_proven)
            alike += [found.base_s, found.treated_s]
            kept |= found.kept
        wrong += kept
    assert wrong <= WHOLE * 200


def test_one_that_is_tried_late_must_be_surer():
    base, treated = [ran(0.2), ran(0.203)], [ran(0.193), ran(0.19)]
    late = run_ab_test(FIX, bench(base, treated, affordable=False), [], 0.001)
    first = run_ab_test(FIX, bench(base, treated, affordable=False), [])
    assert (first.kept, late.kept) == (True, False)
    assert late.effect.low < first.effect.low
    assert late.effect.speedup == first.effect.speedup
    assert "significant" in late.rejection_text


@pytest.mark.parametrize(("treated", "affordable", "hurried"), [
    (0.17, False, True),  # it may be faster, and nobody knows
    (0.17, True, False),  # six pairs have not shown it
    (0.5, False, False),  # it is slower
])  # fmt: skip
def test_where_time_was_wanting_that_is_said(treated, affordable, hurried):
    base = [ran(0.2), ran(0.16), ran(0.22), ran(0.17), ran(0.16), ran(0.21)]
    found = run_ab_test(FIX, bench(base, [ran(treated)], affordable=affordable), [])
    assert not found.kept
    assert found.hurried == hurried
    assert ("in 2 pairs, and no time was left for more" in found.rejection_text) == hurried
    assert hurried or "time" not in found.rejection_text


@pytest.mark.parametrize(("treated", "pairs"), [(0.09, 3), (0.17, 2), (0.5, 2)])
def test_what_promises_much_and_cannot_be_told_yet_passes_the_budget_a_little(treated, pairs):
    """Here by one pair; a gain that may be none is not worth it."""
    base = [ran(0.3), ran(0.15), ran(0.22), ran(0.2)]
    presses = iter([True])
    arms = bench(base, [ran(treated)], affordable=False, pressing=lambda: next(presses, False))
    found = run_ab_test(FIX, arms, [])
    assert found.effect.pairs == pairs
    assert found.kept == (pairs == 3)


def test_what_is_surely_worth_nothing_ends_early():
    found = run_ab_test(FIX, bench([ran(0.2)], [ran(0.2)]), [])
    assert not found.kept
    assert found.effect.pairs < 4


def test_a_small_but_certain_gain_is_not_worth_it():
    found = run_ab_test(FIX, bench([ran(0.2)], [ran(0.2 / 1.015)]), [[1.0] * 30])
    assert not found.kept


def test_a_ruin_needs_no_second_pair():
    found = run_ab_test(FIX, bench([ran(0.1)], [ran(1.5)]), [])
    assert not found.kept
    assert found.effect.pairs == 1
    assert found.rejection_text == "slower in the only pair"


def test_a_great_harm_takes_two():
    found = run_ab_test(FIX, bench([ran(0.1), ran(0.11)], [ran(0.3)]), [])
    assert found.effect.pairs == 2
    assert found.rejection_text == "slower"


def test_what_was_slower_each_time_and_may_be_so_by_chance_is_told_as_that():
    found = run_ab_test(
        FIX, bench([ran(0.1), ran(0.16)], [ran(0.3), ran(0.19)], affordable=False), []
    )
    assert found.effect.high > 1.0
    assert found.rejection_text == "slower in each of 2 pairs"


@pytest.mark.parametrize("bad", [0.145, 0.2, 0.4])
def test_one_bad_pair_may_be_the_machines(bad):
    """Of a fix that makes the job a quarter faster, one arm ran beside somebody's program."""
    scatter = (0.98, 1.02, 1.01, 0.99, 1.0)
    treated = [ran(bad), *(ran(0.08 * way) for way in scatter)]
    found = run_ab_test(FIX, bench([ran(0.1)], treated), [])
    assert found.effect.pairs == MOST
    assert found.rejection_kind in ("", "untold")


def test_what_was_slower_in_one_pair_of_two_is_not_called_so():
    found = run_ab_test(FIX, bench([ran(0.1)], [ran(0.25), ran(0.09)], affordable=False), [])
    assert found.effect.speedup < HARM
    assert found.rejection_kind == "untold"
    assert found.hurried


def test_what_ran_beside_others_is_tried_on():
    """They came for both of two arms in a row: two pairs that agree, and say nothing of the fix."""
    have = psutil.cpu_count()
    base = [crowd(ran(0.1), 0.0)]
    held_up = [crowd(ran(0.2), have), crowd(ran(0.2), have)]
    treated = [*held_up, *(crowd(ran(0.08), 0.0) for _ in range(4))]
    found = run_ab_test(FIX, bench(base, treated), [])
    assert found.effect.pairs == MOST
    assert "slower" not in found.rejection_text


def test_that_others_took_the_machine_is_told():
    have = psutil.cpu_count()
    arms = bench([crowd(ran(0.1), 0.0)], [crowd(ran(0.2), have)], affordable=False)
    why = run_ab_test(FIX, arms, []).rejection_text
    assert f"slower, but other programs used {have:.1f} of the machine's {have} cores" in why
    quiet = bench([crowd(ran(0.1), have)], [crowd(ran(0.2), have)], affordable=False)
    assert run_ab_test(FIX, quiet, []).rejection_text == "slower"


@pytest.mark.parametrize(
    ("arm", "word"),
    [
        (ran(0.1, ending="crashed", said="Traceback\nValueError: no"), "crashed (ValueError: no)"),
        (ran(0.1, ending="hung"), "hung"),
        (ran(0.1, ending="silent"), "took no steps"),
        (ran(0.1, ending="crashed", said="torch.OutOfMemoryError: x"), "ran out of memory"),
    ],
)
def test_a_treated_job_that_fails_is_rolled_back_and_told(arm, word):
    found = run_ab_test(FIX, bench([ran(0.1)], [arm]), [])
    assert not found.kept
    assert word in found.rejection_text
    assert found.rejection_text.startswith("rolled back")


@pytest.mark.parametrize("first", [True, False])
def test_where_a_disk_ran_full_nothing_is_said_of_the_fix(first):
    full = replace(ran(0.1, ending="full"), full="there was no room")
    found = run_ab_test(FIX, bench([ran(0.1), full], [full] if first else [ran(0.1)]), [])
    assert found.rejection_kind == "unjudged"
    assert "was stopped because there was no room (to use another disk" in found.rejection_text


@pytest.mark.parametrize("without", [False, True])
def test_an_arm_with_too_few_steps_to_compare_is_no_harm(without):
    few = ran(0.1, LOSSES[:8], ending="finished")  # larger batches make fewer steps
    base, treated = (few, ran(0.1)) if without else (ran(0.1), few)
    found = run_ab_test(FIX, bench([base], [treated]), [])
    assert found.rejection_kind == "unjudged"
    assert "the job has 8 steps, and a comparison needs 12: not tested" in found.rejection_text


def test_what_declines_costs_one_arm():
    """Nothing is to be held against what the job does not take up."""
    base = [ran(0.1)]
    arms = replace(bench(base, [ran(0.1, took=False)]), base=lambda: pytest.fail("not asked for"))
    assert run_ab_test(FIX, arms, []).rejection_text.startswith("declined")


def test_what_declines_in_a_later_run_has_no_gain():
    """In the first it took hold, and was faster by luck."""
    arms = bench([ran(0.2)], [ran(0.1), ran(0.1, took=False, declined={"loader.workers": "x"})])
    found = run_ab_test(FIX, arms, [])
    assert found.rejection_text == "declined: x"
    assert found.effect is None


def test_a_job_that_fails_without_the_fix_too_is_no_harm_of_it():
    crashed = ran(0.1, ending="crashed")
    assert run_ab_test(FIX, bench([crashed], [crashed]), []).rejection_text.endswith("not tested")


def crashed_at(step):
    """An arm that comes so far, and no further."""
    marks = ran(0.1).report.marks[:1] * step
    told = ProcessReport(ended="crashed", begun=0, marks=marks, losses=[])
    return replace(ran(0.1, ending="crashed", said="ValueError: bad record"), report=told)


def test_a_crash_that_the_job_comes_to_later_without_the_fix_is_no_harm_of_it():
    """A slower arm ends before it is there."""
    asked = []

    def bad(*steps):
        asked.append(steps)
        return crashed_at(76)

    found = run_ab_test(FIX, bench([ran(0.1)], [crashed_at(76)], reaching=bad), [])
    assert found.rejection_kind == "unjudged"
    assert (
        found.rejection_text == "without it, the job crashed (ValueError: bad record): not tested"
    )
    assert asked == [(78, len(LOSSES))]


def test_a_crash_that_comes_with_the_fix_alone_is_its_own():
    good = bench([ran(0.1)], [crashed_at(76)], reaching=lambda *_: ran(0.1))
    assert (
        run_ab_test(FIX, good, []).rejection_text
        == "rolled back: with it, the job crashed (ValueError: bad record)"
    )
    late = bench([ran(0.1)], [crashed_at(76)])
    assert run_ab_test(FIX, late, []).rejection_text.endswith(
        "; the job was not run up to step 76 without it"
    )
    early = bench([ran(0.1)], [crashed_at(3)], reaching=lambda *_: pytest.fail("not asked for"))
    assert run_ab_test(FIX, early, []).rejection_kind == "harm"


def test_several_that_decline_say_why_each():
    edits = tuple(Edit(knob=knob, value=2) for knob in ("loader.workers", "a.b", "c.d"))
    arm = ran(0.1, took=False, declined={"loader.workers": "x", "a.b": "x", "c.d": "y"})
    found = run_ab_test(replace(FIX, edits=edits), bench([ran(0.1)], [arm]), [])
    assert found.rejection_text == "declined: x; y"


def test_a_knob_that_nothing_took_up_is_no_gain():
    found = run_ab_test(FIX, bench([ran(0.2)], [ran(0.1, took=False)]), [])
    assert not found.kept
    assert "it took no effect" in found.rejection_text


FUSED = replace(FIX, consent="rounding", edits=(Edit(knob="optimizer.fused", value=True),))


def off(losses, by):
    return [loss * (1 + by) for loss in losses]


def fused(losses):
    return replace(ran(0.1, losses), applied={"optimizer.fused": 1})


@pytest.mark.parametrize(
    ("by", "kept", "runs"), [(1e-8, True, 0), (3e-6, True, 1), (1e-3, False, 2)]
)
def test_another_order_of_sums_is_held_against_other_rounding(by, kept, runs):
    asked = []

    def swayed(seed, steps):
        asked.append((seed, steps))
        return replace(ran(0.3, off(LOSSES, 1e-6)), swayed=True)

    found = run_ab_test(FUSED, bench([ran(0.2)], [fused(off(LOSSES, by))], swayed=swayed), [])
    assert found.kept == kept
    assert asked == [(1, 40), (2, 40)][:runs]


def test_without_any_loss_other_numbers_are_unknown_and_no_harm():
    """Class ``rounding``: parameters alone do not show whether the job still learns the same."""

    def unseen(arm):
        return replace(telling(arm, losses=[]), swayed=True)

    base, treated = unseen(ran(0.2)), unseen(fused(LOSSES))
    found = run_ab_test(FUSED, bench([base], [treated], swayed=lambda seed, steps: base), [])
    assert found.rejection_kind == "unjudged"
    assert found.rejection_text.startswith("no loss was recorded")


def test_where_no_other_rounding_could_be_had_that_is_said():
    """In each such run there was no memory for it, so that it was let be: nothing is known then."""

    def swayed(seed, steps):
        return replace(telling(ran(0.3), unswayed=True), swayed=True)

    found = run_ab_test(FUSED, bench([ran(0.2)], [fused(off(LOSSES, 3e-6))], swayed=swayed), [])
    assert not found.kept
    assert found.rejection_kind == "unjudged"  # nobody knows that it did harm
    assert found.check.explanation.endswith("on this job could not be measured")
    assert "may bring" not in found.check.explanation


COMPILED = replace(FIX, consent="rounding", edits=(Edit(knob="model.compile", value=True),))


@pytest.mark.parametrize(("drew", "off_by", "kept"), [(True, 1e-8, True), (True, 1e-3, False),
                                                      (False, 1e-8, False)])  # fmt: skip
def test_compiled_code_is_held_by_a_run_that_draws_the_same_numbers(drew, off_by, kept):
    """With dropout its losses are others; without any they have to be the same."""
    other = replace(ran(0.1, LOSSES[::-1]), applied={"model.compile": 1})
    drawn = replace(ran(0.3, off(LOSSES, off_by)), applied={"model.compile": 1})
    base = telling(ran(0.2), drew=drew)
    swayed = replace(ran(0.3, off(LOSSES, 1e-6)), swayed=True)
    asked = []
    arms = bench(
        [base],
        [other],
        swayed=lambda seed, steps: swayed,
        drawn=lambda steps: asked.append(steps) or drawn,
    )
    assert run_ab_test(COMPILED, arms, []).kept == kept
    assert asked == [40] * drew


def test_all_ranks_are_held_not_only_the_first():
    base, other = several(0.2, LOSSES, LOSSES[::-1]), several(0.1, LOSSES, [*LOSSES[1:], 1.0])
    found = run_ab_test(FIX, bench([base], [other]), [])
    assert not found.kept
    assert "rank 1: loss 1 differs" in found.rejection_text
    assert run_ab_test(FIX, bench([base], [several(0.1, LOSSES, LOSSES[::-1])]), []).kept


def test_a_rank_that_tells_nothing_any_more_is_no_gain():
    base, alone = several(0.2, LOSSES, LOSSES), several(0.1, LOSSES)
    found = run_ab_test(FIX, bench([base], [alone]), [])
    assert found.rejection_text == "rolled back: rank 1 reported nothing"


def test_a_rank_that_dies_is_named():
    dead = replace(ran(0.1, ending="crashed"), lost=[1])
    assert "rank 1 died" in run_ab_test(FIX, bench([ran(0.1)], [dead]), []).rejection_text


def late(step_s, seconds):
    """An arm whose first step takes so much longer."""
    return telling(ran(step_s), begun=-int(seconds * 1e9))


@pytest.mark.parametrize(
    ("left", "kept"),
    [
        (RemainingJob(100), False),
        (RemainingJob(seconds=10), False),
        (RemainingJob(300), True),
        (None, True),
    ],
)
def test_what_does_not_pay_within_the_job_is_not_kept(left, kept):
    """It starts 20 s later, and saves a tenth of a second in each step."""
    found = run_ab_test(FIX, bench([ran(0.2)], [late(0.1, 20.0)], left=left), [])
    assert found.kept == kept
    assert found.once.pays_after == pytest.approx(200, rel=0.05)
    assert kept or "does not pay off" in found.rejection_text


def test_a_job_that_ends_by_itself_tells_what_is_left_of_it():
    base = replace(ran(0.2), ending="finished")
    assert "of 40 steps" in run_ab_test(FIX, bench([base], [late(0.1, 20.0)]), []).rejection_text
    assert run_ab_test(FIX, bench([base], [ran(0.1)]), []).kept


def holding(step_s, each, fetched=0.0, *, until=10**6, losses=LOSSES):
    """An arm that holds so many bytes more after each step up to one of them, and fetches so many a
    second."""
    arm = ran(step_s, losses)
    samples = [
        TreeSample(
            mark,
            int(1e9 + each * min(step, until) + 1000 * (step % 3)),
            int(fetched * mark / 1e9),
        )
        for step, mark in enumerate(arm.report.marks)
    ]
    return replace(arm, samples=samples)


def test_what_leaks_without_the_fix_too_is_none_of_it():
    arms = bench([holding(0.2, 5e6)], [holding(0.1, 5e6)], left=RemainingJob(10**7))
    assert run_ab_test(FIX, arms, []).kept


@pytest.mark.parametrize(("until", "kept"), [(len(LOSSES), True), (10**6, False)])
def test_a_fix_that_leaks_is_rolled_back_unless_it_fills_up_in_a_longer_arm(until, kept):
    count, asked = len(LOSSES), []

    def longer(*steps):
        asked.append(steps)
        return holding(0.1, 5e6, until=until, losses=3 * LOSSES)

    arms = bench([holding(0.2, 0)], [holding(0.1, 5e6)], left=RemainingJob(10**7), lasting=longer)
    found = run_ab_test(FIX, arms, [])
    assert found.kept == kept
    assert asked == [(3 * count, count)]
    assert not kept or found.notes == [f"host memory grows in the first {count} steps only"]
    leaks = "rolled back: it leaks: host memory grows by 5 MB per step"
    assert kept or found.rejection_text.startswith(leaks)


def test_a_leak_that_there_is_no_time_to_follow_says_how_far_it_was_seen():
    found = run_ab_test(
        FIX, bench([holding(0.2, 0)], [holding(0.1, 5e6)], left=RemainingJob(10**7)), []
    )
    assert found.rejection_text.startswith("rolled back: it may leak: ")
    told = f"measured over {len(LOSSES)} steps; there was no time for a longer run"
    assert found.rejection_text.endswith(told)
    assert found.hurried  # which the last line says, with a budget that is enough


def test_a_leak_whose_longer_arm_failed_is_a_guess_too():
    failing = {"lasting": lambda *_: replace(holding(0.1, 5e6), ending="crashed")}
    found = run_ab_test(
        FIX, bench([holding(0.2, 0)], [holding(0.1, 5e6)], left=RemainingJob(10**7), **failing), []
    )
    assert found.rejection_text.startswith("rolled back: it may leak: ")
    assert found.rejection_text.endswith("a longer run failed")


def on_device(step_s, each):
    """An arm whose tensors take so many bytes more of its device after each step."""
    held = [(n, 10**9 + each * n) for n in range(40)]
    return telling(ran(step_s), device=held, device_free=10**9)


def test_a_fix_that_leaks_on_the_device_is_rolled_back():
    base = bench([on_device(0.2, 0)], [on_device(0.1, 2000)], left=RemainingJob(10**7))
    found = run_ab_test(FIX, base, [])
    assert not found.kept
    assert "device memory grows by 2 kB per step" in found.rejection_text
    arms = bench([on_device(0.2, 0)], [on_device(0.1, 0)], left=RemainingJob(10**7))
    assert run_ab_test(FIX, arms, []).kept


def test_a_leak_that_the_job_does_not_live_to_see_is_told():
    found = run_ab_test(
        FIX, bench([holding(0.2, 0)], [holding(0.1, 1e5)], left=RemainingJob(1000)), []
    )
    assert found.kept
    assert "grows by 100 kB" in found.notes[0]


def test_an_arm_that_fetched_its_files_is_run_again():
    cold, warm = holding(0.3, 0, fetched=9e6), holding(0.2, 0)
    arms = bench([cold, warm], [holding(0.2, 0)])
    found = run_ab_test(FIX, arms, [])
    assert not found.kept  # against the cold one it looks half as fast again
    assert found.base_s == pytest.approx([0.2] * len(found.base_s))
    assert "9 MB/s" in found.notes[0]


def test_files_that_never_stay_in_memory_are_how_the_job_runs():
    base, treated = holding(0.2, 0, fetched=9e6), holding(0.1, 0, fetched=18e6)
    found = run_ab_test(FIX, bench([base], [treated]), [])
    assert found.kept
    assert len(found.notes) == 1


def paused(arm, after, seconds):
    """The arm, with code compiled after so many steps."""
    late = int(seconds * 1e9)
    marks = [mark + (late if i >= after else 0) for i, mark in enumerate(arm.report.marks)]
    return telling(arm, marks=marks, compiled=[(after, late)])


def test_what_a_fix_compiles_once_is_paid_once():
    """A model that was compiled is evaluated for the first time amid the arm."""
    treated = paused(ran(0.1), 25, 9.0)
    found = run_ab_test(FIX, bench([ran(0.2)], [treated], left=RemainingJob(10_000)), [])
    assert found.kept
    assert found.effect.speedup == pytest.approx(2.0, rel=0.01)
    assert found.once.seconds == pytest.approx(9.1, abs=0.3)
    found = run_ab_test(FIX, bench([ran(0.2)], [treated], left=RemainingJob(50)), [])
    assert "does not pay off" in found.rejection_text


def test_what_the_job_compiles_and_the_fix_takes_away_is_gained():
    found = run_ab_test(FIX, bench([paused(ran(0.1), 25, 3.0)], [ran(0.1)]), [])
    assert found.kept
    assert found.effect.speedup > 2.0
    both = run_ab_test(FIX, bench([paused(ran(0.1), 25, 3.0)], [paused(ran(0.1), 25, 1.0)]), [])
    assert not both.kept
