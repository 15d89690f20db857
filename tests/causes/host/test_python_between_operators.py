"""Python between operators, on jobs without a GPU."""

from dataclasses import replace

import pytest

from cured_twins import judge
from whyidle.analysis.facts import Facts
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.timeline import DeviceInfo, Timeline
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair
from whyidle.testing.recorded_job import RecordedJob

CAUSE = "python-between-operators"


def train(pause: float, *, every: int = 1) -> Timeline:
    job = Builder()
    for step in range(11):
        with job.step():
            for _ in range(20):
                job.op("aten::mm", host=us(50))
            job.python("train.py(7): way", us(50))
            if pause and step % every == 0:
                job.python("train.py(44): accuracy", us(pause))
    return replace(job.timeline(), info=DeviceInfo())


@pytest.mark.parametrize("every", [0, 10])
def test_the_prediction_covers_the_twin(every):
    proof = judge(CAUSE, train(800))
    assert proof
    twin = train(800 if every else 0, every=every or 1)
    measured = Facts(train(800)).step_s / Facts(twin).step_s
    assert proof.predicted.low <= measured <= proof.predicted.high * 1.02


def test_the_place_is_named_and_the_fix_goes_there():
    found = next(f for f in diagnose_job([train(800)]).findings if f.cause == CAUSE)
    assert (found.where[0].file, found.where[0].line) == ("train.py", 44)
    assert "accuracy" in found.headline
    assert "accuracy (train.py:44)" in found.fixes[0].summary


def test_a_job_of_the_gpu_is_judged_by_what_the_gpu_waits_for():
    job = Builder()
    for _ in range(4):
        with job.step():
            job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(100))])
            job.python("train.py(44): accuracy", us(800))
    assert judge(CAUSE, job.timeline()) is None


def test_of_a_watched_job_the_other_cause_tells_with_the_error_that_looks_have():
    job = RecordedJob()
    for _ in range(30):
        job.python("/job/train.py(44): accuracy;/job/train.py(9): <module>", us(10_000))
        job.backward("/job/train.py(9): <module>", us(20_000))
        job.step("/job/train.py(9): <module>", us(5_000))
    assert judge(CAUSE, job.timeline()) is None
    found = diagnose_job([job.timeline()]).findings
    assert [one.cause for one in found] == ["python-overhead-in-step"]


def test_python_of_a_library_is_told_as_such():
    """Nobody can vectorise it."""
    job = Builder()
    for _ in range(11):
        with job.step():
            job.op("aten::mm", host=us(2000))
            with job.span("train.py(96): train", "python_function"):
                job.now += us(5)
                job.python("/e/site-packages/torch/nn/utils/clip_grad.py(41): clip", us(900))
    found = next(
        one
        for one in diagnose_job([replace(job.timeline(), info=DeviceInfo())]).findings
        if one.cause == CAUSE
    )
    assert found.headline.startswith("Python of torch, called in train, takes")
    assert "calls to torch at train.py:96" in found.fixes[0].summary
    assert "vectorise" not in found.fixes[0].summary


PAIRS = {CAUSE: Pair(sick=lambda: train(800), healthy=lambda: train(0))}
