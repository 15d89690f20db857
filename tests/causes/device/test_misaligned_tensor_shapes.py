"""Unaligned variants of tensor-core kernels."""

import pytest

from cured_twins import covers, judge, twin_speedup
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "misaligned-tensor-shapes"
ODD = "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1>(int)"
EVEN = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_nn_align8>(int)"
HOPPER = "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT"
SIMT = "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nt_align1>(int)"
SOFTMAX = "void cunn_SoftMaxForward<8, c10::BFloat16, float, c10::BFloat16>(c10::BFloat16*)"


def train(name=ODD, length=800.0, *, softmax=False, host=6):
    job = Builder()
    dims = [[4096, 50257], [50257, 1024]]
    for _ in range(4):
        with job.step():
            for _ in range(20):
                operator = "aten::bmm" if softmax else "aten::mm"
                job.op(operator, kernels=[(name, us(length))], dims=dims, host=us(host))
                if softmax:
                    job.op("aten::_softmax", kernels=[(SOFTMAX, us(50))])
    return job


@pytest.mark.parametrize("ratio", [1.0, 1.25, 1.9])
def test_the_prediction_holds_the_twin(ratio):
    sick, cured = train(), train(EVEN, 800 / ratio)
    proof = judge(CAUSE, sick)
    assert proof is not None
    assert covers(proof, twin_speedup(sick, cured))
    assert "4096x50257 @ 50257x1024" in [item.value for item in proof.evidence]


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(lambda: train(SIMT), id="vector units have no alignment to miss"),
        pytest.param(lambda: train(softmax=True), id="attention has its own cause"),
        pytest.param(lambda: train(length=3, host=200), id="host is the bottleneck"),
    ],
)
def test_silent(job):
    assert judge(CAUSE, job()) is None


PAIRS = {CAUSE: Pair(sick=train, healthy=lambda: train(EVEN))}


@pytest.mark.parametrize(
    ("columns", "peak", "found"), [(4097, 0.5, True), (4096, 0.5, False), (4097, 0.75, False)]
)
def test_shapes_tell_where_names_do_not(columns, peak, found):
    """A library whose names hold no alignment, on an A100 with 312 TFLOP/s in bf16."""
    dims = [[8192, columns], [columns, 8192]]
    length = 2 * 8192 * 8192 * columns / (312e12 * peak) * 1e6
    job = Builder()
    for _ in range(4):
        with job.step():
            for _ in range(5):
                types = ["c10::BFloat16"] * 2
                job.op("aten::mm", kernels=[(HOPPER, us(length))], dims=dims, types=types)
    proof = judge(CAUSE, job)
    assert bool(proof) == found
    if proof:
        assert "4097: no multiple of 8" in str(proof.evidence)
        assert "0.49" in str(proof.evidence) or "0.5" in str(proof.evidence)
