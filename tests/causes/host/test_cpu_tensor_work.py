import pytest

from cured_twins import covers, judge, twin_speedup
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "cpu-tensor-work"


def train(cpu: float, *, name: str = "aten::normal_") -> Builder:
    """Steps that compute on the CPU for ``cpu`` us, then on the device for 2 ms."""
    job = Builder()
    for _ in range(6):
        with job.step():
            if cpu:
                with job.span("aten::randn", "cpu_op"):
                    job.quiet(us(1))
                    job.op(name, host=us(cpu))
            job.copy("h2d", 4_000_000)
            for _ in range(4):
                job.op("aten::mm", kernels=[("ampere_bf16_s16816gemm_bf16_128x128", us(500))])
            job.sync()
    return job


def test_the_operator_and_its_time_are_named():
    proof = judge(CAUSE, train(3000))
    assert proof
    assert "The CPU computes aten::normal_ for 3" in proof.headline


@pytest.mark.parametrize("cpu", [800, 3000, 10_000])
def test_the_prediction_covers_the_twin_on_the_device(cpu):
    sick = train(cpu)
    proof = judge(CAUSE, sick)
    assert proof
    assert covers(proof, twin_speedup(sick, train(0)))


def test_work_that_the_device_hides_costs_nothing():
    job = Builder()
    for _ in range(12):
        with job.step():
            job.op("aten::normal_", host=us(300))
            job.op("aten::mm", kernels=[("gemm", us(4000))])
    assert judge(CAUSE, job) is None


def test_operators_that_move_data_compute_nothing():
    assert judge(CAUSE, train(3000, name="aten::copy_")) is None


def test_loading_has_causes_of_its_own():
    job = Builder()
    for _ in range(6):
        with job.step():
            with job.span("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
                job.op("aten::stack", host=us(3000))
            job.op("aten::mm", kernels=[("gemm", us(500))])
            job.sync()
    assert judge(CAUSE, job) is None


PAIRS = {CAUSE: Pair(sick=lambda: train(3000), healthy=lambda: train(0))}
