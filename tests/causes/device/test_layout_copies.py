"""Copies into another layout, and copies that do something else."""

import pytest

from cured_twins import covers, judge, twin_speedup
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "layout-copies"
GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
STRIDED = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::"
    "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}>(int)"
)
CAST = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::"
    "TensorIteratorBase&)::{lambda()#3}, at::native::memory::LoadWithCast<1>>(int)"
)


def train(kernel=STRIDED, asking="aten::contiguous", *, copies=True, host=6):
    job = Builder()
    for _ in range(4):
        with job.step():
            for _ in range(20):
                job.op("aten::mm", kernels=[(GEMM, us(300))], host=us(host))
                if copies:
                    with job.span(asking, "cpu_op"):
                        job.op("aten::copy_", kernels=[(kernel, us(100))], host=us(host))
    return job


@pytest.mark.parametrize("asking", ["aten::contiguous", "aten::reshape"])
def test_the_prediction_holds_the_twin(asking):
    sick = train(asking=asking)
    proof = judge(CAUSE, sick)
    assert proof is not None
    assert asking in proof.headline
    assert covers(proof, twin_speedup(sick, train(copies=False)))


@pytest.mark.parametrize(
    ("kernel", "asking"), [(CAST, "aten::contiguous"), (STRIDED, "aten::index_put_")]
)
def test_casts_and_copies_into_slices_are_needed(kernel, asking):
    assert judge(CAUSE, train(kernel, asking)) is None


def test_nothing_is_promised_while_the_host_is_the_bottleneck():
    assert judge(CAUSE, train(host=900)) is None


PAIRS = {CAUSE: Pair(sick=train, healthy=lambda: train(CAST))}
