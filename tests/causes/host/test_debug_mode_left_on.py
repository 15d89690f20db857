import pytest

from cured_twins import covers, judge, twin_speedup
from imagined_jobs import launch_bound
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "debug-mode-left-on"
NODE = "autograd::engine::evaluate_function: MmBackward0"


def blocking(on: bool, *, kernel: float = 60, host: float = 40) -> Builder:
    job = Builder()
    for _ in range(4):
        with job.step():
            for _ in range(30):
                with job.span("aten::mm", "cpu_op"):
                    job.quiet(us(host))
                    job.launch("gemm", us(kernel), blocking=on)
    return job


def anomaly(on: bool, *, share: int = 1) -> Builder:
    job = Builder()
    for _ in range(4):
        with job.step():
            for number in range(30):
                with job.span(NODE, "cpu_op"):
                    job.op("aten::mm", kernels=[("gemm", us(60))], host=us(40))
                    if on and number % share == 0:
                        job.op("aten::isnan", kernels=[("elementwise_kernel", us(3))])
                        job.item()
    return job


@pytest.mark.parametrize(("kernel", "host"), [(60, 40), (30, 60)])
def test_blocking_launches(kernel, host):
    sick, cured = (blocking(on, kernel=kernel, host=host) for on in (True, False))
    proof = judge(CAUSE, sick)
    assert proof
    assert proof.facts.mode == "CUDA_LAUNCH_BLOCKING"
    assert covers(proof, twin_speedup(sick, cured))


def test_blocking_launches_are_not_called_slow_launches():
    assert judge("launch-bound-small-kernels", blocking(True)) is None


def test_anomaly_mode():
    sick = anomaly(True)
    proof = judge(CAUSE, sick)
    assert proof
    assert proof.facts.mode == "anomaly_mode"
    assert covers(proof, twin_speedup(sick, anomaly(False)))


def test_a_few_checks_for_nan_are_no_mode():
    assert judge(CAUSE, anomaly(True, share=6)) is None


@pytest.mark.parametrize("job", [launch_bound])
def test_ordinary_launches(job):
    assert judge(CAUSE, job()) is None


PAIRS = {CAUSE: Pair(sick=lambda: blocking(True), healthy=lambda: blocking(False))}
