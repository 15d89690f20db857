"""The effect of a fix, from the times of runs."""

import math
import random
from dataclasses import replace

import pytest

from whyidle.fix.arms.process_report import ProcessReport
from whyidle.fix.statistics.speedup import (
    FEW,
    WARM,
    WARM_STEPS,
    common_steps,
    compiled_late,
    estimate_speedup,
    startup_s,
    step_s,
    warmup_mark,
)
from whyidle.probe.trial import trial_recorder


def told(step_s, count, first_s=1.0, ahead=0):
    """An arm: its first step after ``first_s``, so many steps in no time, then the steady ones."""
    marks = [int(first_s * 1e9 + 1e5 * i) for i in range(ahead)]
    begin = first_s * 1e9 + 1e5 * ahead
    marks += [int(begin + step_s * i * 1e9) for i in range(count - ahead)]
    return ProcessReport(ended="stopped", begun=0, marks=marks, losses=[])


def test_the_steady_part_leaves_out_what_was_loaded_ahead():
    assert step_s(told(0.1, 21), 21) == pytest.approx(0.1)
    assert step_s(told(0.1, 60, ahead=8), 60) == pytest.approx(0.1)


def test_what_it_costs_once_is_what_steady_steps_would_not_have_taken():
    assert startup_s(told(0.1, 21, first_s=3.0), 21) == pytest.approx(2.9)
    assert startup_s(told(0.1, 50, first_s=3.0, ahead=8), 50) < 2.5


def test_a_host_that_is_ahead_of_its_device_does_not_tell_how_long_a_step_takes():
    """It launches fifty steps of 60 ms, reads a number, waits for all of them, and ends."""
    marks = [int(1e9 + 5e6 * i) for i in range(50)]
    marks.append(int(1e9 + 51 * 60e6))
    drained = [(4, int(1e9 + 4 * 60e6)), (51, marks[-1])]
    arm = ProcessReport(ended="stopped", begun=0, marks=marks, losses=[], drained=drained)
    assert step_s(arm, 51) == step_s(arm, 40) == pytest.approx(0.06)
    assert startup_s(arm, 51) == pytest.approx(1.0)
    assert step_s(ProcessReport(ended="stopped", begun=0, marks=marks, losses=[]), 51) > 1.0


def on_device(each_s, count, pause=None):
    """An arm whose device takes so long for a step, and evaluates for 2 s after step ``pause``; its
    host launches all steps at once, and waits after every 25th."""
    ready = [each_s * (i + 1) + 2.0 * (pause is not None and i >= pause) for i in range(count)]
    marks = [ready[i] if i % 25 == 24 else ready[max(i // 25 * 25 - 1, 0)] for i in range(count)]
    drained = [(i + 1, int(at * 1e9)) for i, at in enumerate(ready) if i > 2]
    return ProcessReport("stopped", 0, [int(at * 1e9) for at in marks], [], drained=drained)


def test_of_a_device_the_same_steps_are_compared_as_well():
    """Only the faster arm comes to an evaluation: that is not counted against it."""
    base, treated = on_device(0.1, 30), on_device(0.08, 38, pause=34)
    steps, others = common_steps([base], [treated])
    assert steps == others == 30
    assert step_s(base, steps) == pytest.approx(0.1)
    assert step_s(treated, others) == pytest.approx(0.08)
    assert step_s(treated, 38) > 0.12


def test_a_job_that_ended_by_itself_is_told_as_far_as_its_device_was_heard():
    arm = replace(on_device(0.1, 30), ended="finished")
    assert step_s(replace(arm, drained=arm.drained[:20]), 30) == pytest.approx(0.1)
    host = [int(1e8 * i) for i in range(30)]
    deaf = replace(arm, drained=arm.drained[:1], marks=host)  # of one without events
    assert step_s(deaf, 30) == pytest.approx(0.1)
    assert step_s(deaf, 2) == pytest.approx(0.1)


@pytest.mark.parametrize("steps", [2, 3, 5, 12, 1000])
def test_something_is_left_after_the_warm_up(steps):
    assert 0 <= warmup_mark(told(0.1, steps), steps) < steps - 1


def test_arms_that_are_about_as_fast_are_compared_over_the_same_steps():
    assert common_steps([told(0.1, 30), told(0.1, 32)], [told(0.1, 40)]) == (30, 30)
    assert common_steps([told(0.1, 20)], [told(0.01, 200), told(0.01, 190)]) == (20, 190)


def test_one_pair_alone_says_nothing_of_its_interval():
    found = estimate_speedup([2.0], [1.0])
    assert found.speedup == pytest.approx(2.0)
    assert found.low < 1e-9
    assert found.high > 1e9
    assert not found.has_interval


def test_other_runs_tell_of_the_scatter_of_one_pair():
    found = estimate_speedup([2.0], [1.0], alike=[[1.0, 1.01, 0.99], [2.0, 2.01]])
    assert 1.7 < found.low < 2.0 < found.high < 2.4
    assert found.has_interval


def test_runs_that_agree_to_the_digit_still_have_an_interval():
    found = estimate_speedup([2.0, 2.0, 2.0], [1.9, 1.9, 1.9])
    assert found.low < 2.0 / 1.9 < found.high


def test_the_interval_covers_the_truth_as_often_as_it_says():
    """A thousand trials of three pairs, each run off by 5 %: of the intervals 95 % hold 1.2."""
    chance = random.Random(0)
    held = 0
    for _ in range(1000):
        base = [1.2 * math.exp(chance.gauss(0, 0.05)) for _ in range(3)]
        treated = [math.exp(chance.gauss(0, 0.05)) for _ in range(3)]
        found = estimate_speedup(base, treated)
        held += found.low <= 1.2 <= found.high
    assert 930 <= held <= 970


def compiling(pauses, each_s=0.1, count=60):
    """An arm whose steps take so long, and between which code is compiled: after how many of them,
    and how many seconds."""
    late = [sum(s for after, s in pauses if after <= i) for i in range(count)]
    marks = [int((1.0 + each_s * i + late[i]) * 1e9) for i in range(count)]
    told = [(after, int(s * 1e9)) for after, s in pauses]
    return ProcessReport("stopped", 0, marks, [], compiled=told)


def test_code_that_is_compiled_once_belongs_to_no_step():
    """As where a model that was compiled is evaluated for the first time."""
    arm = compiling([(2, 5.0), (40, 3.0)])
    assert step_s(arm, 60) == pytest.approx(0.1)
    assert startup_s(arm, 60) == pytest.approx(0.9 + 5.0 + 3.0)
    assert step_s(arm, 60, whole=True) > 0.15
    assert startup_s(arm, 60, whole=True) < 0.9 + 5.0
    host = replace(arm, compiled=[])
    drained = [(4, arm.marks[3]), (60, arm.marks[59])]
    assert step_s(replace(arm, drained=drained), 60) == pytest.approx(0.1)
    assert step_s(replace(host, drained=drained), 60) == pytest.approx(0.1 + 3.0 / 56)


def test_a_job_that_compiles_again_and_again_takes_so_long():
    arm = compiling([(after, 1.0) for after in (20, 30, 40, 50)])
    assert step_s(arm, 60) == step_s(arm, 60, whole=True) > 0.15


def test_what_is_compiled_in_one_pause_is_one():
    assert step_s(compiling([(40, 0.5)] * 5), 60) == pytest.approx(0.1)


def test_only_what_comes_after_the_first_steps_is_said_to_be_compiled_later():
    assert not compiled_late(compiling([(0, 5.0), (WARM_STEPS, 1.0)]))
    assert compiled_late(compiling([(WARM_STEPS + 1, 1.0)]))


def test_the_witness_judges_alike_how_often_code_is_compiled():
    assert (trial_recorder.FEW, trial_recorder.WARM_STEPS, trial_recorder.WARM) == (
        FEW,
        WARM_STEPS,
        WARM,
    )
