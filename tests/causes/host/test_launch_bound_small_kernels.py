import pytest

from cured_twins import covers, judge, twin_speedup
from imagined_jobs import launch_bound
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "launch-bound-small-kernels"


def eager(*, kernels: int = 200, kernel: float = 4, host: float = 15) -> Builder:
    job = Builder()
    for _ in range(5):
        with job.step():
            for _ in range(kernels):
                job.op("aten::add", kernels=[("elementwise_kernel", us(kernel))], host=us(host))
    return job


def launched_alone(*, kernels: int = 200, kernel: float = 4) -> Builder:
    """The same kernels without operators between the launches."""
    job = Builder()
    for _ in range(5):
        with job.step():
            job.op("aten::add", host=us(30))
            for _ in range(kernels):
                job.launch("elementwise_kernel", us(kernel))
    return job


def as_one_graph(*, kernels: int = 200, kernel: float = 4) -> Builder:
    """The same work behind one launch."""
    job = Builder()
    for _ in range(5):
        with job.step():
            job.op("aten::add", host=us(30), kernels=[("elementwise_kernel", us(kernel * kernels))])
    return job


def test_a_thousand_tiny_kernels():
    proof = judge(CAUSE, launch_bound())
    assert proof
    assert proof.high > 0.5
    assert {e.quantity: e.value for e in proof.evidence}["median kernel"] == pytest.approx(3e-6)


@pytest.mark.parametrize("kernel", [4, 10])
@pytest.mark.parametrize("cure", [launched_alone, as_one_graph])
def test_the_prediction_covers_the_cured_twin(kernel, cure):
    sick = eager(kernel=kernel)
    proof = judge(CAUSE, sick)
    assert proof
    assert covers(proof, twin_speedup(sick, cure(kernel=kernel)), slack=0.08)


def test_tiny_kernels_behind_a_full_queue_cost_nothing():
    job = Builder()
    for _ in range(5):
        with job.step():
            job.op("aten::mm", kernels=[("gemm", us(20_000))])
            for _ in range(200):
                job.op("aten::add", kernels=[("elementwise_kernel", us(4))], host=us(15))
    proof = judge(CAUSE, job)
    assert proof is None or proof.high < 0.03


def test_what_recording_costs_is_not_claimed():
    """The same step with many recorded operators that launch nothing claims less of its share."""
    plain, crowded = eager(), Builder()
    for _ in range(5):
        with crowded.step():
            for _ in range(200):
                with crowded.span("aten::linear", "cpu_op"):
                    for _ in range(8):
                        crowded.op("aten::view", host=us(1))
                    crowded.op("aten::add", kernels=[("k", us(4))], host=us(7))
    a, b = judge(CAUSE, plain), judge(CAUSE, crowded)
    assert a
    assert b
    assert b.high < a.high


def test_a_larger_batch_is_foretold_beside_it():
    """Kernels that take as long with four times the batch, or four times as long."""
    larger = judge(CAUSE, eager()).facts.larger
    for kernel in (4, 16):
        gain = 4 * twin_speedup(eager(), eager(kernel=kernel))
        assert larger.low <= gain <= larger.high


PAIRS = {CAUSE: Pair(sick=eager, healthy=as_one_graph)}
