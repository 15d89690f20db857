"""Recomputation with free memory."""

from cured_twins import covers, judge, twin_speedup
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "needless-compute"
GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_nn"
ENGINE = "autograd::engine::evaluate_function: "
LAYERS = 8


def train(*, again=True, memory=None):
    job = Builder()
    for _ in range(4):
        with job.step():
            for _ in range(LAYERS):
                job.op("aten::mm", kernels=[(GEMM, us(500))])
            if memory:
                job.memory(memory << 30, memory << 30)
            for _ in range(LAYERS):
                outer = ENGINE + ("CheckpointFunctionBackward" if again else "MmBackward0")
                with job.span(outer, "cpu_op"):
                    if again:
                        with job.span("CheckpointFunctionBackward", "cpu_op"):
                            job.op("aten::mm", kernels=[(GEMM, us(500))])
                            with job.span(ENGINE + "MmBackward0", "cpu_op"):
                                job.op("aten::mm", kernels=[(GEMM, us(1000))])
                    else:
                        job.op("aten::mm", kernels=[(GEMM, us(1000))])
    return job


def test_the_prediction_holds_the_twin():
    sick = train(memory=20)
    proof = judge(CAUSE, sick)
    assert proof is not None
    assert "75% of the memory is free" in proof.headline
    assert covers(proof, twin_speedup(sick, train(again=False)))


def test_only_the_second_forward_pass_counts():
    proof = judge(CAUSE, train(memory=20))
    assert proof is not None
    assert 0.2 < proof.high < 0.27


def test_without_recorded_memory_it_is_less_sure():
    sure, unsure = judge(CAUSE, train(memory=20)), judge(CAUSE, train())
    assert unsure is not None
    assert unsure.confidence < 0.5 < sure.confidence


def test_silent_without_recomputation():
    assert judge(CAUSE, train(again=False, memory=20)) is None


PAIRS = {CAUSE: Pair(sick=lambda: train(memory=20), healthy=lambda: train(memory=70))}
