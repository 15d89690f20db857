"""Short operators that one line calls one after the other, from stack samples."""

import pytest

from whyidle import catalog
from whyidle.analysis.lines import tiny_op_loops
from whyidle.analysis.sampling.gil_waits import FRAMEWORK_US
from whyidle.readers.probe.samples import HELD_BITS
from whyidle.testing.cured_twins import judge
from whyidle.testing.recorded_job import RecordedJob

MS = 1_000_000
LOOP = "/job/train.py(87): train"
FILL = f"/job/train.py(61): get_batch;{LOOP}"
MODEL = f"/e/site-packages/torch/nn/modules/module.py(1789): _call_impl;{LOOP}"
OPS = f"/e/site-packages/torch/nn/modules/linear.py(134): forward;{MODEL}"
FREE = 1 << HELD_BITS


def taken(waited_us):
    """What a look says that had to wait so long for the lock."""
    return waited_us | 2 << HELD_BITS


SHORT = (taken(20), taken(8), taken(35), FREE)


def judged(at=FILL, said=SHORT):
    """10 of 40 ms at one line, where looks say one of these after the other."""
    job = RecordedJob()
    for _ in range(60):
        job.work(at, 10 * MS)
        job.work(OPS, 10 * MS)
        job.backward(OPS, 15 * MS)
        job.step(OPS, 5 * MS)
    looks = iter(said * len(job.samples))
    job.samples = [
        (time, ran, stack, next(looks) if stack == at else FREE)
        for time, ran, stack, _ in job.samples
    ]
    return judge("python-overhead-in-step", job)


def test_a_tensor_filled_one_element_at_a_time_is_told_with_its_line():
    proof = judged()
    assert proof.headline.startswith("Short calls one after the other in get_batch take 9.83 ms")
    assert (proof.where[0].line, proof.bucket) == (61, "compute")
    assert proof.predicted.low < proof.predicted.speedup < 40 / 30 < proof.predicted.high
    values = {row.quantity: row.value for row in proof.evidence}
    assert values["samples at these lines that waited for the lock"] == pytest.approx(
        0.75, abs=0.01
    )


def test_the_fix_is_one_call_for_all():
    plan = catalog.load_fixes()["amortise-python"].decide(judged())
    assert "replace the short calls at /job/train.py:61" in plan.summary
    assert "10th step" not in plan.summary
    assert not plan.edits


def test_operators_of_some_size_at_a_line_of_the_users_own_are_the_work_itself():
    """Beside them the lock is free, but for the way there."""
    assert judged(said=(*[FREE] * 11, taken(20))) is None


def test_python_that_runs_before_a_line_is_told_as_such():
    proof = judged(f"/job/train.py(61): rows;{LOOP}", (taken(300), taken(900), taken(20), FREE))
    assert "Short calls" not in proof.headline
    assert proof.headline.startswith("Python ")


def test_how_many_operators_a_model_needs_is_not_told_by_its_lines():
    assert judged(at=f"/job/model.py(30): forward;{MODEL}") is None


def test_a_short_wait_is_what_the_importer_says():
    assert tiny_op_loops.LONGEST_S == 2 * FRAMEWORK_US / 1e6
