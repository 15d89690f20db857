"""Parameters that a compiled step writes to new memory."""

import pytest

from cured_twins import covers, judge, twin_speedup
from whyidle.model.timeline import HostKind
from whyidle.testing.contracts import Pair
from whyidle.testing.recorded_job import RecordedJob

CAUSE = "undonated-buffers"
MS, MB = 1_000_000, 1_000_000
LINE = "/job/train.py(9): <module>"


def train(copied=300 * MB, fresh=300.0 * MB, step_ms=270, **facts):
    """Compiled steps that keep the device busy."""
    known = {"copied_bytes": copied, "fresh_bytes": fresh, "compiled": True}
    job = RecordedJob(framework="jax", version="0.10", **{**known, **facts})
    for _ in range(20):
        with (
            job.call("optimizer\tjit(step)"),
            job.call("optimizer_operators\twhyidle::optimizer", HostKind.OP),
        ):
            job.work(LINE, 1 * MS)
        with job.call("scalar_read\tjax.block_until_ready", HostKind.RUNTIME):
            job.wait(LINE, (step_ms - 1) * MS)
        with job.call("device_idle\tdevice_idle"):
            pass
    return job


def test_copies_cost_the_memory_that_they_take():
    proof = judge(CAUSE, train())
    assert proof is not None
    assert "300 MB" in proof.headline
    assert covers(proof, twin_speedup(train(), train(copied=0, step_ms=155)))


@pytest.mark.parametrize("facts", [{"copied": 0}, {"copied": None}, {"step_ms": 60_000}])
def test_steps_that_copy_nothing_of_weight_are_left_alone(facts):
    assert judge(CAUSE, train(**facts)) is None


def test_memory_that_the_allocator_kept_is_no_cause():
    assert judge(CAUSE, train(step_ms=120, fresh=50.0 * MB)) is None


def test_a_gpu_is_not_judged():
    assert judge(CAUSE, train(device="cuda")) is None


PAIRS = {CAUSE: Pair(sick=train, healthy=lambda: train(copied=0, step_ms=155))}
