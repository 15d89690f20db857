"""Steps of ``fit`` that are as short as the call that takes them."""

import pytest

from whyidle import catalog
from whyidle.engine.diagnosis.diagnose import diagnose_job
from whyidle.model.timeline import HostKind
from whyidle.testing import contracts
from whyidle.testing.builder import ms
from whyidle.testing.pairs import Pair
from whyidle.testing.recorded_job import RecordedJob

LOOP = "/job/train.py(30): <module>"


def train(step_ms=1.5, label="Model.fit", **switches):
    job = RecordedJob(framework="tensorflow", switches={"steps_per_call": 1, **switches})
    for _ in range(40):
        work = job.call("optimizer_operators\twhyidle::optimizer", HostKind.OP)
        with job.call(f"optimizer\t{label}"), work:
            job.work(LOOP, ms(step_ms))
    return job.timeline()


PAIRS = {"short-step-calls": Pair(sick=train, healthy=lambda: train(30))}


def judge(timeline):
    return contracts.run_cause(catalog.load_causes()["short-step-calls"], [timeline])


def test_it_leads_and_names_the_fit_and_the_setting():
    top = diagnose_job([train()]).findings[0]
    assert (top.cause, top.where[0].line) == ("short-step-calls", 30)
    assert {e.knob: e.value for e in top.fixes[0].edits} == {"keras.steps_per_execution": 20}


@pytest.mark.parametrize(
    "healthy",
    [
        {"steps_per_call": 20},
        {"steps_per_call": None},
        {"batch_callbacks": ["Plot"]},
        {"run_eagerly": True, "seen": {"looks": 1, "run_eagerly": 1}},
        {"label": "train_step"},
    ],
)
def test_others_are_left_alone(healthy):
    assert judge(train(**healthy)) is None


def test_the_measured_gain_lies_within_the_prediction():
    predicted = judge(train(1.0)).predicted  # 1.0 to 1.6 ms became 0.28 to 0.45 with twenty steps
    assert predicted.low <= 2.9 <= predicted.high
