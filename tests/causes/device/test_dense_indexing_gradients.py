"""Gradients of lookups in tables, and of parts of tensors, that are mostly zeros."""

import pytest

from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair
from whyidle.testing.cured_twins import covers, judge, twin_speedup
from whyidle.testing.recorded_job import RecordedJob

CAUSE = "dense-indexing-gradients"
MS = 1_000_000
S = "/env/lib/python3.11/site-packages/"
MODEL = """class Titles(nn.Module):
    def __init__(self):
        self.words = nn.Embedding(150_000, 50)
        self.tags = nn.Embedding(9, 50, sparse=True)

def sequence_loss(logits, target):
    total = 0
    for b in range(8):
        for t in range(24):
            total = total + F.cross_entropy(logits[b, t], target[b, t])
    return total
"""
CALL = f"{S}torch/nn/modules/module.py(1789): _call_impl;/job/train.py(3): <module>"
FORWARD = f"{S}torch/nn/modules/rnn.py(9): forward;{CALL}"
LOSS = "/job/net.py(10): sequence_loss;/job/train.py(3): <module>"
BACKWARD = f"{S}torch/autograd/graph.py(9): _engine_run_backward;/job/train.py(4): <module>"
UPDATE = f"{S}torch/optim/sgd.py(9): step;/job/train.py(5): <module>"


def timed(pass_ms, *, tables_ms=0, parts_ms=0, among_ms=0):
    return {
        "pass_ns": pass_ms * MS,
        "tables_ns": tables_ms * MS,
        "table_elements": 9_000_000 if tables_ms else 0,
        "parts_ns": parts_ms * MS,
        "parts": 192 if parts_ms else 0,
        "among_ns": among_ms * MS,
        "filled": 9_000_000,
        "read": 9_000,
    }


def look_up(filling=20, updating=20):
    """A table is a tenth of each step, or two thirds with its zeros and their updates."""
    optimizer = {"name": "SGD", "tensors": 7, "elements": 10_000_000}
    indexing = [timed(10 + filling, tables_ms=filling)] * 3 if filling else []
    job = RecordedJob(optimizer=optimizer, indexing=indexing)
    job.sources = {"/job/net.py": MODEL}
    for _ in range(60):
        job.work(FORWARD, 10 * MS)
        job.backward(BACKWARD, (10 + filling) * MS)
        job.step(UPDATE, (2 + updating) * MS)
    return job


def take_parts(filling=20, parts=True):
    """A loss in a loop, and the gradients of what it takes."""
    indexing = [timed(30 + filling, parts_ms=filling, among_ms=20 + filling)] * 3 if parts else []
    job = RecordedJob(indexing=indexing)
    job.sources = {"/job/net.py": MODEL}
    for _ in range(60):
        job.work(FORWARD, 10 * MS)
        job.work(LOSS, 10 * MS)
        job.backward(BACKWARD, (30 + filling) * MS)
        job.step(UPDATE, 5 * MS)
    return job


def test_the_table_and_its_update_are_told_with_the_line_that_makes_it():
    proof = judge(CAUSE, look_up())
    assert proof is not None
    assert [place.line for place in proof.where] == [3]
    truth = 62 / 24
    assert proof.predicted.low <= truth <= proof.predicted.high
    assert proof.predicted.speedup == pytest.approx(truth, rel=0.2)


def test_the_loop_that_takes_parts_goes_with_its_backward_pass():
    proof = judge(CAUSE, take_parts())
    assert proof is not None
    assert [place.line for place in proof.where] == [10]
    truth = 75 / (75 - 10 - 40)
    assert proof.predicted.low <= truth <= proof.predicted.high
    assert proof.predicted.speedup == pytest.approx(truth, rel=0.2)


def test_a_loss_in_a_loop_without_large_gradients_is_another_cause():
    assert judge(CAUSE, take_parts(parts=False)) is None


def test_a_small_table_in_a_large_model_is_left_alone():
    job = look_up(filling=0)
    job.facts["indexing"] = [timed(300, tables_ms=1)]
    job.facts["optimizer"]["elements"] = 9_000_000_000
    assert judge(CAUSE, job) is None


def test_a_few_parts_are_no_loop():
    job = take_parts()
    job.facts["indexing"] = [{**timed(50, parts_ms=1, among_ms=45), "parts": 2}]
    assert judge(CAUSE, job) is None


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


PAIRS = {CAUSE: Pair(sick=look_up, healthy=lambda: look_up(filling=0, updating=0))}
