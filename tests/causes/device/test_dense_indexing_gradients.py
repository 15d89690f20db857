"""Gradients of lookups in tables, and of parts of tensors, that are mostly zeros."""

from cured_twins import covers, judge, twin_speedup
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair
from whyidle.testing.recorded_job import RecordedJob

CAUSE = "dense-indexing-gradients"
MS = 1_000_000


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


def table(unread, *, update_ms=80):
    optimizer = {"name": "Adam", "tensors": 3, "elements": 1_000_000, "unread": unread}
    job = RecordedJob(optimizer=optimizer)
    for _ in range(40):
        job.work("/job/train.py(20): train", 10 * MS)
        job.backward("/job/train.py(21): train", 10 * MS)
        job.step("/job/train.py(22): train", update_ms * MS, optimizer="Adam")
    return job


def test_rows_of_tables_that_nothing_reads_are_told_from_others():
    proof = judge(CAUSE, table(980_000))
    assert proof
    assert "98.0% of what Adam updates" in proof.headline
    assert 2 < proof.predicted.low < proof.predicted.high < 100 / 20
    assert judge("unfused-optimizer", table(980_000)) is None
    assert judge(CAUSE, table(300_000)) is None


PAIRS = {CAUSE: Pair(sick=trace, healthy=lambda: trace(zeros=0))}
