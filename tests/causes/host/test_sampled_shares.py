"""What stack samples tell is predicted with their error."""

import pytest
from judging import judge

from whyidle.testing.guest import Guest

MS = 1_000_000
OPS = "/torch/nn/linear.py(134): forward;/job/train.py(12): <module>"


def judged(steps, python=10, at="/job/train.py(30): metrics;/job/train.py(15): <module>"):
    job = Guest()
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
    told = judged(60, python=1.5, at="")
    assert not told.where
    assert (told.predicted.low, told.predicted.speedup) == (1.0, 1.0)
    assert told.predicted.high > 1.05


def test_much_python_at_no_line_is_told():
    """The lock is handed over beyond its last line, so that no look has one."""
    told = judged(60, at="")
    assert not told.where
    assert told.predicted.speedup > 1.3
    assert told.predicted.speedup == judged(60).predicted.speedup
