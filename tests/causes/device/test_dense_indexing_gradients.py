"""Gradients of lookups in tables, and of parts of tensors, that are mostly zeros."""

from cured_twins import covers, judge, twin_speedup
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "dense-indexing-gradients"


def trace(node="EmbeddingBackward0", zeros=400):
    job = Builder()
    for _ in range(4):
        with job.step():
            for _ in range(5):
                job.op("aten::mm", kernels=[("ampere_sgemm_128x64_nn", us(300))])
            with job.span(node, "cpu_op"):
                if zeros:
                    job.op("aten::fill_", kernels=[("FillFunctor<float>", us(zeros))])
                job.op("aten::index_add_", kernels=[("indexFuncLargeIndex", us(20))])
    return job


def test_zeros_in_a_trace_of_a_gpu():
    sick = trace()
    proof = judge(CAUSE, sick)
    assert proof is not None
    assert covers(proof, twin_speedup(sick, trace(zeros=0)))


def test_zeros_elsewhere_are_not_of_indexing():
    assert judge(CAUSE, trace(node="ExpandBackward0")) is None


PAIRS = {CAUSE: Pair(sick=trace, healthy=lambda: trace(zeros=0))}
