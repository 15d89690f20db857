"""Recomputed activations of watched jobs on the CPU."""

import pytest

from cured_twins import covers, judge, twin_speedup
from watched_run import add_telemetry
from whyidle import catalog
from whyidle.testing import contracts
from whyidle.testing.builder import ms
from whyidle.testing.recorded_job import RecordedJob

CAUSE = "needless-compute"
LOOP = "/job/train.py(20): <module>"
LAYER = "/x/torch/nn/modules/linear.py(1): forward;/job/model.py(7): forward"
ASKED = f"{LAYER};/x/torch/utils/checkpoint.py(5): checkpoint;/job/model.py(13): forward;{LOOP}"
ENGINE = "/x/torch/autograd/graph.py(9): _engine_run_backward"
BACKWARD = f"{ENGINE};/x/torch/autograd/__init__.py(3): backward;{LOOP}"
AGAIN = {
    "saved": f"{LAYER};/x/torch/utils/checkpoint.py(16): recompute_fn;{BACKWARD}",
    "reentrant": f"{LAYER};/x/torch/utils/checkpoint.py(14): backward;{BACKWARD}",
}
NESTED = f"{ENGINE};/x/torch/utils/checkpoint.py(14): backward;{BACKWARD}"
GIB = 1 << 30


def train(again="", *, forward=20.0) -> RecordedJob:
    job = RecordedJob()
    for _ in range(30):
        job.work(ASKED if again else f"{LAYER};{LOOP}", ms(forward))
        with job.call("whyidle::backward"):
            if again:
                job.work(AGAIN[again], ms(forward))
            job.work(NESTED if again == "reentrant" else BACKWARD, ms(2 * forward))
        job.step(LOOP, ms(2))
    return job


def with_memory(job: RecordedJob, used: float):
    telemetry = {"machine_memory_bytes": 64.0 * GIB, "job_memory_resident_bytes": used * 64 * GIB}
    return add_telemetry(job.timeline(), telemetry)


@pytest.mark.parametrize("kind", AGAIN)
def test_the_prediction_covers_the_twin(kind):
    sick = train(kind)
    proof = judge(CAUSE, sick)
    assert proof
    assert covers(proof, twin_speedup(sick, train()))
    assert (proof.where[0].file, proof.where[0].line) == ("/job/model.py", 13)
    assert proof.confidence < 0.5  # nothing tells whether the memory was there


@pytest.mark.parametrize(("used", "found"), [(0.1, True), (0.9, False)])
def test_memory_that_is_short_makes_it_worth_while(used, found):
    proof = contracts.run_cause(catalog.load_causes()[CAUSE], [with_memory(train("saved"), used)])
    assert (proof is not None) == found
    if proof:
        assert proof.confidence > 0.7
        assert "90% of the memory is free" in proof.headline


def test_without_checkpoints_nothing_is_said():
    assert judge(CAUSE, train()) is None
