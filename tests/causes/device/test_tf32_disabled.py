"""FP32 matrix products beside idle tensor cores."""

import pytest

from whyidle.testing.builder import Builder, us
from whyidle.testing.twins import covers, judge, measured

CAUSE = "tf32-disabled"
SGEMM = "ampere_sgemm_128x128_tn"
TF32 = "cutlass_80_tensorop_s1688gemm_128x64_32x6_nt_align4"
A100 = "NVIDIA A100-SXM4-80GB"


def train(*kernels, device=A100, capability=(8, 0), host=6):
    job = Builder(device=device, capability=capability)
    for _ in range(4):
        with job.step():
            for _ in range(20):
                for name, duration in kernels:
                    job.op("aten::mm", kernels=[(name, us(duration))], host=us(host))
    return job


@pytest.mark.parametrize("ratio", [1.6, 3.0, 5.5])
def test_the_prediction_holds_the_twin(ratio):
    sick, cured = train((SGEMM, 900)), train((TF32, 900 / ratio))
    proof = judge(CAUSE, sick)
    assert proof is not None
    assert covers(proof, measured(sick, cured))


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(lambda: train((SGEMM, 900), (TF32, 5)), id="on: one product in TF32"),
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
