import pytest

from cured_twins import covers, judge, twin_speedup
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "python-overhead-in-step"


def train(pause: float, *, every: int = 1, frame: str = "train.py(44): accuracy") -> Builder:
    job = Builder()
    for step in range(11):
        with job.step():
            for _ in range(20):
                job.op("aten::mm", kernels=[("gemm", us(50))], host=us(40))
            if pause and step % every == 0:
                job.python(frame, us(pause))
    return job


@pytest.mark.parametrize("every", [0, 10])
def test_the_prediction_covers_the_twin(every):
    sick = train(800)
    proof = judge(CAUSE, sick)
    assert proof
    assert covers(proof, twin_speedup(sick, train(800 if every else 0, every=every or 1)))


def test_the_function_is_named():
    proof = judge(CAUSE, train(800))
    assert proof
    assert proof.where[0].function == "accuracy"
    assert "accuracy" in proof.headline


def test_without_frames_it_is_less_sure():
    job = Builder()
    for _ in range(6):
        with job.step():
            for _ in range(20):
                job.op("aten::mm", kernels=[("gemm", us(50))], host=us(40))
            job.quiet(us(800))
    proof = judge(CAUSE, job)
    assert proof
    assert not proof.where
    assert proof.confidence <= 0.5


def test_python_while_work_is_queued_costs_nothing():
    job = Builder()
    for _ in range(6):
        with job.step():
            for _ in range(20):
                job.op("aten::mm", kernels=[("gemm", us(500))], host=us(10))
            job.python("train.py(44): accuracy", us(800))
    assert judge(CAUSE, job) is None


def test_a_recording_that_misses_events_is_not_judged():
    """The host waits for two milliseconds for work that the recording does not hold."""
    job = Builder()
    for _ in range(6):
        with job.step():
            for _ in range(20):
                job.op("aten::mm", kernels=[("gemm", us(50))], host=us(40))
            job.python("train.py(44): accuracy", us(800))
            job.sync()
            job.runtime("cudaStreamSynchronize", us(2000))
    assert judge(CAUSE, job) is None


def test_a_loader_is_another_cause():
    assert judge(CAUSE, train(900, frame="torch/utils/data/dataloader.py(700): __next__")) is None


def test_gaps_inside_a_graph_are_no_pauses_of_a_host_that_has_finished():
    job = Builder()
    for _ in range(6):
        with job.step():
            correlation, begin = job._next(), job.now
            for _ in range(300):
                job._device(
                    "kernel",
                    "gemm",
                    begin,
                    us(5),
                    stream=7,
                    correlation=correlation,
                    args={},
                )
            job.runtime("cudaGraphLaunch", us(20), correlation)
    assert judge("python-overhead-in-step", job) is None


PAIRS = {CAUSE: Pair(sick=lambda: train(800), healthy=lambda: train(100))}
