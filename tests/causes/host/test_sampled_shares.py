"""Predictions from stack samples include the sampling error."""

import pytest

from cured_twins import judge
from whyidle import catalog
from whyidle.testing.recorded_job import FREE, HELD_US, TAKEN, RecordedJob

MS = 1_000_000
OPS = "/torch/nn/linear.py(134): forward;/job/train.py(12): <module>"


def judged(steps, python=10, at="/job/train.py(30): metrics;/job/train.py(15): <module>"):
    job = RecordedJob()
    for _ in range(steps):
        job.backward(OPS, 10 * MS)
        job.step(OPS, 5 * MS)
        job.python(at, int(python * MS))
    return judge("python-overhead-in-step", job)


def test_few_looks_make_a_wide_prediction():
    few, many = judged(6).predicted, judged(120).predicted
    assert few.speedup == pytest.approx(many.speedup, rel=0.15)
    assert many.high - many.low < few.high - few.low


def test_the_careful_end_is_half_of_what_there_is_at_least():
    proof = judged(8)
    assert proof.low < 0.5 * 10 / 25


def test_of_a_little_python_at_no_line_nothing_is_expected():
    proof = judged(60, python=1.5, at="")
    assert not proof.where
    assert (proof.predicted.low, proof.predicted.speedup) == (1.0, 1.0)
    assert proof.predicted.high > 1.05


def test_much_python_at_no_line_is_told():
    """The lock is handed over beyond its last line, so that no look has one."""
    proof = judged(60, at="")
    assert not proof.where
    assert proof.predicted.speedup > 1.3
    assert proof.predicted.speedup == judged(60).predicted.speedup


def told_by_the_kernel(at, seen=False, waited_us=200, python=10):
    """10 of 25 ms in Python: short stretches, each over at a line of operators, as looks found it
    that waited so long; some looks found it running."""
    job = RecordedJob()
    for step in range(120):
        job.backward(OPS, 10 * MS)
        job.step(OPS, 5 * MS)
        if step == 0:
            job.work(at, MS)  # the lock is free there
        running = seen and step % 40 == 0
        line = f"/job/train.py(30): simulate;{at}" if running else at
        job.python(line, int(python * MS))
    samples = []
    for time, cpu, stack, held in job.samples:
        busy = HELD_US if held >= TAKEN else 0  # so long the lock was waited for
        waited = (6_000 if "simulate" in stack else waited_us) if busy else 0
        delay = 130 + waited | (TAKEN if busy else FREE)  # and so long it took to wake up
        samples.append((time - 130_000, cpu + (waited - busy) * 1_000, stack, delay))
    job.samples = samples
    return judge("python-overhead-in-step", job)


LOOP = "/job/train.py(15): <module>"
BESIDE = f"/torch/nn/linear.py(134): forward;{LOOP}"


def test_python_that_no_look_shows_is_told_with_the_line_before_which_it_ran():
    proof = told_by_the_kernel(BESIDE)
    assert proof.headline.startswith("Python before train.py:15 takes 9.9")
    assert "runs before /job/train.py:15" in plan(proof).summary


def test_of_a_little_python_before_operators_nothing_is_expected():
    """The framework's own runs there, too."""
    predicted = told_by_the_kernel(BESIDE, python=1.4).predicted
    assert (predicted.low, predicted.speedup) == (1.0, 1.0)
    assert predicted.high > 1.05
    assert told_by_the_kernel(BESIDE, python=2).predicted.speedup > 1.08


def test_a_function_that_was_seen_running_is_named():
    proof = told_by_the_kernel(LOOP, seen=True)
    assert "in simulate" in proof.headline
    assert proof.where[0].line == 30
    assert "of simulate (/job/train.py:30)" in plan(proof).summary


def test_what_may_be_the_frameworks_own_is_hoped_for_only():
    assert told_by_the_kernel(BESIDE, waited_us=40) is None
    proof = told_by_the_kernel(BESIDE, waited_us=80)
    assert proof.high < 0.5


def test_python_that_training_needs_is_not_told_to_be_left_out():
    fix = plan(told_by_the_kernel(BESIDE))
    assert "if it only logs or measures" in fix.summary
    assert "do not skip what training needs" in fix.risk
    assert catalog.load_fixes()["amortise-python"].consent == "rounding"


def plan(proof):
    return catalog.load_fixes()["amortise-python"].decide(proof)


def test_python_that_was_seen_in_a_library_is_told_as_its_own():
    nltk = "/e/site-packages/nltk/tokenize.py(9): split;/job/train.py(15): <module>"
    proof = judged(60, at=nltk)
    assert proof.headline.startswith("Python of nltk, called at train.py:15, takes")
    assert "call nltk less often at /job/train.py:15" in plan(proof).summary
    assert "vectorise" not in plan(proof).summary


def test_what_the_training_loop_calls_of_the_framework_cannot_be_left_out():
    clip = "/e/site-packages/torch/nn/utils/clip_grad.py(41): clip;/job/train.py(15): <module>"
    fix = plan(judged(60, at=clip))
    assert "calls to torch at /job/train.py:15" in fix.summary
    assert "10th step" not in fix.summary
    assert not fix.edits
