"""FP32 matrix products with TF32 off."""

import pytest

from cured_twins import covers, judge, twin_speedup
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "tf32-disabled"
SGEMM = "ampere_sgemm_128x128_tn"
TF32 = "cutlass_80_tensorop_s1688gemm_128x64_32x6_nt_align4"
A100 = "NVIDIA A100-SXM4-80GB"


SIDE = 2048
AT_PEAK = 2 * SIDE**3 / 19.5e12 * 1e6
"""microseconds that a product of this side takes at the FP32 peak of an A100"""


def train(*kernels, device=A100, capability=(8, 0), host=6, dims=None):
    job = Builder(device=device, capability=capability)
    for _ in range(4):
        with job.step():
            for _ in range(20):
                for name, duration in kernels:
                    job.op("aten::mm", kernels=[(name, us(duration))], host=us(host), dims=dims)
    return job


@pytest.mark.parametrize("ratio", [1.6, 3.0, 5.5])
def test_the_prediction_holds_the_twin(ratio):
    sick, cured = train((SGEMM, 900)), train((TF32, 900 / ratio))
    proof = judge(CAUSE, sick)
    assert proof is not None
    assert covers(proof, twin_speedup(sick, cured))


@pytest.mark.parametrize("reached", [0.9, 0.5, 0.2])
def test_only_what_the_flops_take_shrinks_where_shapes_tell_it(reached):
    took = AT_PEAK / reached
    then = took - AT_PEAK * (1 - 19.5 / 156)
    shapes = [[SIDE, SIDE], [SIDE, SIDE]]
    sick, cured = (train((n, t), dims=shapes) for n, t in ((SGEMM, took), (TF32, then)))
    proof, gain = judge(CAUSE, sick), twin_speedup(sick, cured)
    assert covers(proof, gain)
    assert proof.predicted.speedup == pytest.approx(gain, rel=0.1)


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(lambda: train(("gemv2T_kernel_val<int, float>", 900)), id="matrix by vector"),
        pytest.param(lambda: train((SGEMM, 5), host=100), id="host is the bottleneck"),
        pytest.param(
            lambda: train(("ampere_fp16_sgemm_fp16_128x64_tn", 900)), id="16-bit on vector units"
        ),
        pytest.param(
            lambda: train(("volta_sgemm_128x64_nn", 900), device="Tesla V100", capability=(7, 0)),
            id="no TF32 in Volta",
        ),
        pytest.param(
            lambda: train((SGEMM, 900), device="NVIDIA GeForce RTX 3080", capability=(8, 6)),
            id="TF32 no faster",
        ),
        pytest.param(lambda: train((SGEMM, 900), device="Some device"), id="unknown device"),
    ],
)
def test_silent(job):
    assert judge(CAUSE, job()) is None


PAIRS = {
    CAUSE: Pair(sick=lambda: train((SGEMM, 900)), healthy=lambda: train((SGEMM, 900), (TF32, 5)))
}
