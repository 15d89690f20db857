"""Evaluations in a loop of compiled calls, of which samples hit some."""

import pytest

from cured_twins import judge
from whyidle.analysis.facts import Facts
from whyidle.model.timeline import HostKind
from whyidle.testing.builder import ms
from whyidle.testing.recorded_job import RecordedJob

LOOP = "/job/train.py(9): <module>"
EVALUATE = f"/job/train.py(30): ask;/job/train.py(20): evaluate;{LOOP}"


def train(every=5, calls=10, *, in_step=False):
    """Ten steps of 10 ms, and every ``every`` steps an evaluation of 2 ms a call, read at its
    end; samples show its last call."""
    job = RecordedJob(framework="jax", version="0.10", compiled=True, cores=4.0)
    for step in range(40):
        for call in range(calls if step % every == 0 else in_step):
            with job.call("\tjit(ask)", HostKind.OP):
                if call == calls - 1:
                    job.work(EVALUATE, ms(2))
                else:
                    job.now += ms(2)
        if step % every == 0:
            with job.call("scalar_read\tArrayImpl._value", HostKind.RUNTIME):
                job.now += ms(2)
        with job.call("optimizer\tjit(step)"):
            job.work(LOOP, ms(10))
        with job.call("device_idle\tdevice_idle"):
            pass
    return job


def test_all_of_an_evaluation_counts():
    share = Facts(train().timeline()).bucket_share("evaluation")
    assert share == pytest.approx(22 / (5 * 10 + 22), abs=0.03)
    assert judge("heavy-evaluation", train()).predicted.high > 1.3


def test_a_function_that_every_step_calls_is_training():
    share = Facts(train(in_step=True).timeline()).bucket_share("evaluation")
    assert share < 0.25  # as samples show


def test_the_place_of_an_evaluation_is_not_that_of_the_forward_pass_after_it():
    """Each evaluation records its line; the forward pass is only seen by a sample now and then."""
    job = RecordedJob(cores=4.0)
    for step in range(60):
        with job.call("evaluation\tevaluation"):
            job.samples.append((job.now, -1, EVALUATE, 0))
            job.now += ms(4)
        if step % 5 == 0:
            job.work(f"/job/net.py(5): forward;{LOOP}", ms(4))
        else:
            job.now += ms(4)
        job.backward(LOOP, ms(4))
        job.step(LOOP, ms(1))
    facts = Facts(job.timeline())
    shares = {line.place.line: line.time / facts.scope.total for line in facts.lines if line.place}
    assert shares[30] == pytest.approx(4 / 13, abs=0.03)
    assert shares[5] == pytest.approx(4 / 13, abs=0.03)
    assert judge("heavy-evaluation", job)
    assert judge("costly-call", job) is None
