"""Which samples found the interpreter's lock taken, and the job's own Python, however short."""

import numpy as np
import pytest

from whyidle.analysis.facts import Facts
from whyidle.analysis.lines.sampled_lines import running_lines
from whyidle.analysis.sampling import gil_waits
from whyidle.analysis.sampling.share_error import unseen_python
from whyidle.model.stack_samples import STACK_SAMPLE
from whyidle.readers.probe.samples import HELD_BITS
from whyidle.testing.recorded_job import RecordedJob

US, MS = 1_000, 1_000_000
LOOP = "/job/train.py(20): <module>"
OPS = f"/lib/torch/nn/modules/linear.py(134): forward;{LOOP}"
NEXT = "/lib/torch/nn/modules/linear.py(134): forward;/job/train.py(22): <module>"
OWN = f"/job/train.py(8): simulate;{LOOP}"
LATE_US = 130
"""what a look takes to wake up"""
HANDED_US = 30
"""what it takes to wake up again, once the lock is let go of"""


def rows(*looks):
    """Samples at a stack that were had so many us late and gave up their core so often."""
    made = np.zeros(len(looks), STACK_SAMPLE)
    for row, (stack, late, sleeps) in zip(made, looks, strict=True):
        row["time"], row["stack"], row["waited_us"], row["sleeps"] = MS, stack, late, sleeps
    return made


def taken(*looks):
    return gil_waits.find_taken_lock(rows(*looks)).tolist()


def test_where_the_kernel_counts_no_sleeps_long_waits_found_the_lock_taken():
    assert taken((0, 900, 0), (0, 100, 0)) == [True, False]


def test_a_look_that_slept_once_found_the_lock_free_and_others_waited_for_it():
    assert taken((0, 900, 1), (0, 140, 2), (0, 300, 7)) == [False, True, True]


def waited(samples):
    return gil_waits.subtract_wakeup(samples, gil_waits.find_taken_lock(samples))


def test_what_a_look_took_to_wake_up_is_no_wait():
    told = waited(rows((0, 120, 1), (0, 130, 1), (0, 140, 1), (0, 330, 3)))
    assert told["waited_us"].tolist() == [0, 0, 0, 200]
    assert (told["time"] - MS).tolist() == [120 * US, 130 * US, 140 * US, 130 * US]


def test_a_taken_lock_was_waited_for_however_early_the_look_woke():
    told = waited(rows((0, 130, 1), (0, 90, 2)))
    assert told["waited_us"].tolist() == [0, 1]


def test_looks_that_all_found_the_lock_taken_tell_of_no_waking():
    told = waited(rows((0, 130, 3), (0, 400, 2)))
    assert told["waited_us"].tolist() == [130, 400]


def test_stacks_that_were_noted_at_calls_tell_of_no_waking():
    noted = rows((0, 0, 0), (0, 0, 0), (0, 0, 0), (0, 130, 1), (0, 330, 3))
    noted["runnable_ns"][:3] = -1
    assert waited(noted)["waited_us"].tolist() == [0, 0, 0, 0, 200]


def ran(*looks):
    samples = rows(*looks)
    return gil_waits.find_python(samples, gil_waits.find_taken_lock(samples), [OPS, OWN])


def test_the_frameworks_way_to_an_operator_may_be_python_and_a_free_lock_is_none():
    told = ran((0, 900, 1), (0, 30, 2), (0, 90, 2))
    assert told.python.tolist() == [False, False, True]
    assert told.unsure.tolist() == [False, True, False]


def test_a_line_that_lets_go_of_the_lock_comes_after_the_python():
    told = ran((0, 0, 1), (0, 90, 2), (1, 90, 2), (1, 5_100, 3), (0, 5_100, 3))
    assert told.after.tolist() == [False, True, True, False, True]


def job(stretch_us, operator_us, *, often=30, steps=300, looks=2_000, seen=(), beyond=25):
    """Steps of many short stretches of Python, each before an operator, looked at at random. At its
    end each has so many us of the framework's own; ``seen`` looks interrupted it."""
    guest = RecordedJob()
    moments, begin = [], guest.now
    for _ in range(steps):
        for _ in range(often):
            python = guest.now + (stretch_us + beyond) * US
            moments.append((guest.now, python, python + operator_us * US))
            guest.now = python + operator_us * US
        guest.backward(OPS, MS)
        guest.step(OPS, MS)
    guest.samples.clear()
    drawn = np.random.default_rng(3)
    starts = np.array([first for first, _, _ in moments])
    for number, at in enumerate(np.sort(drawn.integers(begin, guest.now, looks)).tolist()):
        _, python, end = moments[np.searchsorted(starts, at, side="right") - 1]
        late = LATE_US + int(drawn.integers(-20, 20))
        if at < python:
            stack, held, sleeps = NEXT, late + HANDED_US + (python - at) // US, 3
        else:
            stack, held, sleeps = OPS if at < end else NEXT, late, 1
        if number in seen:
            stack, held, sleeps = OWN, 5_150, 3
        told = held | sleeps << HELD_BITS
        guest.samples.append((at - late * US, at, stack, told))
    whole = guest.now - begin
    return Facts(guest.timeline()), often * steps * stretch_us * US / whole


@pytest.mark.parametrize("stretch_us", [100, 150, 300, 600])
def test_python_in_stretches_much_shorter_than_a_look_can_interrupt_is_told(stretch_us):
    facts, truth = job(stretch_us, 200)
    assert truth > 0.2
    assert facts.bucket_share("python") == pytest.approx(truth, abs=0.25 * truth)
    assert facts.bucket_share("python") + unseen_python(facts, facts.bucket_share("python")) > truth


def test_the_frameworks_own_way_to_operators_is_hardly_python():
    facts, _ = job(0, 200)
    assert facts.bucket_share("python") < 0.01
    assert unseen_python(facts, 0.0) == pytest.approx(30 * 25 / 8_750, abs=0.03)


def test_of_python_that_no_look_shows_the_line_before_which_it_ran_is_told():
    facts, _ = job(300, 200)
    where, before, _ = running_lines(facts, facts.time_of("python"))
    assert before
    assert (where[0].line, where[0].function) == (22, "<module>")


def test_a_function_that_was_seen_running_is_told_first():
    facts, _ = job(300, 200, seen=(400, 900))
    where, before, _ = running_lines(facts, facts.time_of("python"))
    assert not before
    assert (where[0].line, where[0].function) == (8, "simulate")
    assert where[1].line == 22
