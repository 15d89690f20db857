"""Jobs of JAX in which compilation is off."""

import pytest

from cured_twins import judge
from whyidle.model.timeline import HostKind
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
