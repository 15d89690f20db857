"""Training in 64 bits, by the parameters' type and by kernels."""

import pytest

from cured_twins import covers, judge, twin_speedup
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair
from whyidle.testing.recorded_job import RecordedJob

CAUSE = "double-precision"
MS = 1_000_000
S = "/env/lib/python3.11/site-packages/"
SOURCE = """cubes = rng.standard_normal((96, 48))
total = 0.0  # a double() would do
net = nn.Sequential(
    nn.Linear(48, 9),
).double()
"""
FORWARD = f"{S}torch/nn/modules/linear.py(9): forward;/job/train.py(8): <module>"
BACKWARD = f"{S}torch/autograd/graph.py(9): _engine_run_backward;/job/train.py(9): <module>"
UPDATE = f"{S}torch/optim/sgd.py(9): step;/job/train.py(10): <module>"


def train(dtype="float64", *, faster=1.0, loading_ms=0):
    optimizer = {"name": "SGD", "tensors": 6, "elements": 10_000_000, "dtype": dtype}
    job = RecordedJob(optimizer=optimizer)
    job.sources = {"/job/train.py": SOURCE}
    for _ in range(60):
        if loading_ms:
            job.batch(loading_ms * MS)
        job.work(FORWARD, int(10 * faster * MS))
        job.backward(BACKWARD, int(20 * faster * MS))
        job.step(UPDATE, int(5 * faster * MS))
    return job


def test_the_type_of_the_parameters_tells_with_the_line_that_asks_for_it():
    proof = judge(CAUSE, train())
    assert proof is not None
    assert [place.line for place in proof.where] == [5]
    assert covers(proof, twin_speedup(train(), train("float32", faster=0.6)))


def test_only_computing_is_gained():
    assert judge(CAUSE, train(loading_ms=35)).high == pytest.approx(judge(CAUSE, train()).high / 2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", None])
def test_other_types_are_left_alone(dtype):
    assert judge(CAUSE, train(dtype)) is None


def trace(kernel, length):
    job = Builder()
    for _ in range(4):
        with job.step():
            for _ in range(10):
                job.op("aten::mm", kernels=[(kernel, us(length))])
                job.op("aten::relu", kernels=[("relu_kernel<float>", us(50))])
    return job


def test_kernels_of_a_trace_tell():
    sick = trace("cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1", 400)
    proof = judge(CAUSE, sick)
    assert proof is not None
    assert covers(proof, twin_speedup(sick, trace("ampere_sgemm_128x64_nn", 160)))
    assert judge(CAUSE, trace("ampere_sgemm_128x64_nn", 160)) is None


PAIRS = {CAUSE: Pair(sick=train, healthy=lambda: train("float32", faster=0.6))}
