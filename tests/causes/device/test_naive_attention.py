"""Unfused attention, from kernels."""

from contextlib import nullcontext

import pytest

from cured_twins import covers, judge, twin_speedup
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "naive-attention"
GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_nn"
SOFTMAX = "void cunn_SoftMaxForward<8, c10::BFloat16, float, c10::BFloat16>(c10::BFloat16*)"
SCALE = "void at::native::vectorized_elementwise_kernel<4, BinaryFunctor<c10::BFloat16>>"
FLASH = "void pytorch_flash::flash_fwd_kernel<cutlass::bfloat16_t>(Flash_fwd_params)"
HEADS, S, D = 128, 4096, 64
FLOPS = 4 * HEADS * S * S * D
BF16 = ["c10::BFloat16"] * 2


def train(*, fused=None, shapes=True, product="aten::bmm", host=6, asked=None):
    job = Builder(device="NVIDIA A100-SXM4-80GB")
    first = [[HEADS, S, D], [HEADS, D, S]] if shapes else None
    second = [[HEADS, S, S], [HEADS, S, D]] if shapes else None
    for _ in range(4):
        with job.step():
            for _ in range(4):
                job.op("aten::addmm", kernels=[(GEMM, us(900))], host=us(host))
                if fused:
                    job.op("aten::_flash_attention_forward", kernels=[(FLASH, us(fused))])
                    continue
                with job.span(asked, "cpu_op") if asked else nullcontext():
                    job.op(product, kernels=[(GEMM, us(4000))], dims=first, types=BF16)
                    job.op("aten::mul", kernels=[(SCALE, us(4000))], host=us(host))
                    softmax = [[HEADS, S, S], [], []] if shapes else None
                    job.op("aten::_softmax", kernels=[(SOFTMAX, us(5000))], dims=softmax)
                    job.op(product, kernels=[(GEMM, us(4000))], dims=second, types=BF16)
    return job


@pytest.mark.parametrize("reached", [0.2, 0.3, 0.48])
def test_the_prediction_holds_the_twin(reached):
    sick, cured = train(), train(fused=FLOPS / (312e12 * reached) * 1e6)
    proof = judge(CAUSE, sick)
    assert proof is not None
    assert proof.confidence > 0.8
    assert covers(proof, twin_speedup(sick, cured))
    assert f"{HEADS} x {S} x {S}" in [item.value for item in proof.evidence]


def test_without_shapes_the_products_keep_most_of_their_time():
    sick, cured = train(shapes=False), train(fused=8000)
    proof = judge(CAUSE, sick)
    assert proof is not None
    assert covers(proof, twin_speedup(sick, cured))


def test_a_classifier_is_not_attention():
    assert judge(CAUSE, train(product="aten::addmm", shapes=False)) is None


def test_what_pytorchs_own_attention_calls_is_not_written_out_by_the_user():
    assert judge(CAUSE, train(asked="aten::_scaled_dot_product_attention_math")) is None


PAIRS = {CAUSE: Pair(sick=train, healthy=lambda: train(fused=2000))}
