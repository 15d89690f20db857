"""Chains of memory-bound operators."""

import pytest

from cured_twins import covers, judge, twin_speedup
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "unfused-memory-bound-ops"
GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_nn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
TRITON = "triton_poi_fused_add_mul_gelu_3"


def train(*, chain=6, name=ADD, length=100.0, host=6):
    job = Builder()
    for _ in range(4):
        with job.step():
            for _ in range(15):
                job.op("aten::mm", kernels=[(GEMM, us(200))], host=us(host))
                for _ in range(chain):
                    job.op("aten::add", kernels=[(name, us(length))], host=us(host))
    return job


SUM = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>"


def shaped(*sizes):
    """As ``train``, with a chain of operators on tensors of so many elements; a negative one is
    reduced, one after the point is a cast."""
    job = Builder()
    for _ in range(4):
        with job.step():
            for _ in range(15):
                job.op("aten::mm", kernels=[(GEMM, us(200))], host=us(6))
                for size in sizes:
                    op, name = ("aten::sum", SUM) if size < 0 else ("aten::add", ADD)
                    dims = [[int(abs(size))], [] if size < 0 or size % 1 else [1]]
                    job.op(op, kernels=[(name, us(100))], host=us(6), dims=dims)
    return job


@pytest.mark.parametrize(
    ("sizes", "chained"),
    [
        ((64, 64, 64, 64), 1.0),
        ((64, -64, 8, 8, 64), 1.0),  # a norm written out
        ((64, 64, 48, 48), 0.66),  # two chains: two kernels saved of three
        ((64, -64, 8, 64.5, 64.5), 0.75),  # a cast of a weight as large, and of another
        ((64, 48, 64, 48), 0.0),  # nothing is handed on
        ((64, 8, 64, 8), 0.0),  # nor where nothing was reduced
    ],
)
def test_a_chain_hands_one_tensor_on(sizes, chained):
    proof, whole = (
        judge(CAUSE, job) for job in (shaped(*sizes), train(chain=len(sizes), length=100))
    )
    if not chained:
        assert proof is None
        return
    assert whole is not None
    won, all_won = (1 - 1 / one.predicted.speedup for one in (proof, whole))
    assert won == pytest.approx(chained * all_won, rel=0.1)


def test_an_optimizer_s_update_is_none_of_the_model_s():
    job = Builder()
    for _ in range(4):
        with job.step():
            for _ in range(15):
                job.op("aten::mm", kernels=[(GEMM, us(200))], host=us(6))
            with job.span("Optimizer.step#AdamW.step"):
                for _ in range(80):
                    job.op("aten::add", kernels=[(ADD, us(100))], host=us(6))
    assert judge(CAUSE, job) is None


@pytest.mark.parametrize("fused", [110, 240, 380])
def test_the_prediction_holds_the_twin(fused):
    sick, cured = train(), train(chain=1, name=TRITON, length=fused)
    proof = judge(CAUSE, sick)
    assert proof is not None
    assert covers(proof, twin_speedup(sick, cured))


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(lambda: train(chain=1), id="nothing to fuse with"),
        pytest.param(lambda: train(length=3, host=200), id="host is the bottleneck"),
    ],
)
def test_silent(job):
    assert judge(CAUSE, job()) is None


PAIRS = {CAUSE: Pair(sick=train, healthy=lambda: train(name=TRITON))}
