"""Layout conversions around convolutions."""

import pytest

from cured_twins import covers, judge, twin_speedup
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "wrong-memory-format"
TURN = "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true, 2>(int)"
BACK = "void cudnn::ops::nhwcToNchwKernel<__half, __half, float, true, false, 0>(int)"
CONV = "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x64"


def train(*, conversions=True, operator="aten::cudnn_convolution", host=6):
    job = Builder()
    before = [(TURN, us(60))] if conversions else []
    after = [(BACK, us(50))] if conversions else []
    for _ in range(4):
        with job.step():
            for _ in range(20):
                job.op(operator, kernels=[*before, (CONV, us(300)), *after], host=us(host))
    return job


def test_the_prediction_holds_the_twin():
    sick = train()
    proof = judge(CAUSE, sick)
    assert proof is not None
    assert covers(proof, twin_speedup(sick, train(conversions=False)))


def test_silent_without_conversions():
    assert judge(CAUSE, train(conversions=False)) is None


@pytest.mark.parametrize("host", [800])
def test_nothing_is_promised_while_the_host_is_the_bottleneck(host):
    assert judge(CAUSE, train(host=host)) is None


PAIRS = {CAUSE: Pair(sick=train, healthy=lambda: train(operator="aten::contiguous"))}
