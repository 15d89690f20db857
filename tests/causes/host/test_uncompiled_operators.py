"""Jobs of JAX in which compilation is off."""

from dataclasses import replace

import pytest

from cured_twins import judge
from whyidle import catalog
from whyidle.model.timeline import DeviceInfo, HostKind
from whyidle.testing import contracts
from whyidle.testing.builder import Builder, us
from whyidle.testing.recorded_job import RecordedJob

MS = 1_000_000
LINE = "/job/train.py(9): <module>"


def train(*, off):
    """Half of each step, single operators are compiled."""
    job = RecordedJob(framework="jax", version="0.10", compiled=True)
    seen = {"looks": 10, **({"jax_disable_jit": 10} if off else {})}
    job.facts["switches"] = {"num_threads": 1, "seen": seen}
    for _ in range(30):
        with (
            job.call("optimizer\tjit(step)"),
            job.call("optimizer_operators\twhyidle::optimizer", HostKind.OP),
        ):
            with job.call("compile\twhyidle::compile#(0): jit(add)"):
                job.python(LINE, 20 * MS)
            job.work(LINE, 20 * MS)
    return job


def test_what_is_compiled_one_by_one_goes_with_the_mode():
    proof = judge("debug-mode-left-on", train(off=True))
    assert proof.facts.mode == "jax_disable_jit"
    assert proof.predicted.high > 30
    assert proof.predicted.speedup == pytest.approx(20, rel=0.3)


def test_a_job_that_compiles_has_no_such_mode():
    assert judge("debug-mode-left-on", train(off=False)) is None


def run(framework="tensorflow", mode="functions_eager", work_us=0, burst=True):
    """Two hundred operators a step, called one by one, of which twenty compute."""
    job = RecordedJob(framework=framework, switches={"seen": {"looks": 1, mode: 1}})
    job.sources["/job/train.py"] = "\n" * 4 + "model.compile(sgd, run_eagerly=True)\n"
    for _ in range(20):
        with (
            job.call("optimizer\ttrain_step"),
            job.call("optimizer_operators\twhyidle::optimizer", HostKind.OP),
        ):
            job.work(LINE, 20 * MS)
    seen = Builder()
    for _ in range(3):
        with seen.step():
            for number in range(200):
                seen.op(
                    "Mul" if number % 10 else "MatMul", host=us(10 if number % 10 else 10 + work_us)
                )
                seen.quiet(us(90))
    recorded = replace(seen.timeline(), info=DeviceInfo(), framework=framework)
    live = replace(job.timeline(), bursts=(recorded,) if burst else ())
    return contracts.run_cause(catalog.load_causes()["debug-mode-left-on"], [live])


def test_what_remains_is_the_work_of_a_burst_and_a_call():
    small, large = (run(work_us=time) for time in (0, 250))
    assert small.predicted.speedup == pytest.approx(1 / (3 / 200 + 0.01), rel=0.05)
    assert large.predicted.speedup == pytest.approx(1 / (0.2 + 0.8 * (3 / 200 + 0.01)), rel=0.05)
    assert small.predicted.high < 3 * small.predicted.low


def test_the_line_that_compiles_the_model_is_named():
    assert run(mode="run_eagerly").where[0].line == 5
    assert not run().where


def test_keras_costs_more_than_a_call_and_without_a_burst_little_is_known():
    proof = run(mode="run_eagerly")
    assert proof.predicted.speedup < run().predicted.speedup
    unknown = run(burst=False).predicted
    assert unknown.high > 3 * unknown.low
