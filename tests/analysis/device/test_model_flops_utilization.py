"""MFU and roofline only where they are proven."""

import pytest

from whyidle.analysis.device.model_flops_utilization import (
    flops_ratio,
    model_flops_utilization,
    peak_flops,
)
from whyidle.analysis.facts import Facts
from whyidle.testing.builder import Builder, us

BF16 = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_nn"
N = 4096
TIME = us(880)  # 2 N^3 FLOPs at half of 312 TFLOP/s


def job(*, device="NVIDIA A100-SXM4-80GB", shapes=1.0, recompute=False):
    built = Builder(device=device)
    for _ in range(4):
        with built.step():
            for layer in range(20):
                dims = [[N, N], [N, N]] if layer < 20 * shapes else None
                built.op("aten::mm", kernels=[(BF16, TIME)], dims=dims)
            if recompute:
                with built.span("CheckpointFunctionBackward", "cpu_op"):
                    built.op("aten::mm", kernels=[(BF16, TIME)], dims=[[N, N], [N, N]])
    return Facts(built.timeline())


def test_mfu_is_flops_over_peak():
    facts = job()
    assert peak_flops(facts) == pytest.approx(312e12)
    assert model_flops_utilization(facts) == pytest.approx(2 * N**3 * 20 / (facts.step_s * 312e12))
    assert flops_ratio(facts, facts.kernels) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(lambda: job(device="Some Accelerator"), id="unknown device"),
        pytest.param(lambda: job(shapes=0.9), id="a tenth of the shapes missing"),
        pytest.param(lambda: job(recompute=True), id="recomputation"),
    ],
)
def test_no_made_up_mfu(facts):
    assert model_flops_utilization(facts()) is None


def test_no_ratio_without_all_shapes():
    facts = job(shapes=0.5)
    assert flops_ratio(facts, facts.kernels) is None
    assert flops_ratio(facts, facts.kernels[:0]) is None
