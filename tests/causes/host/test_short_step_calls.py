"""Steps that are as short as the call that takes them."""

import pytest

from cured_twins import covers, judge
from whyidle import catalog
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.timeline import HostKind
from whyidle.testing.builder import ms
from whyidle.testing.contracts import Pair
from whyidle.testing.recorded_job import RecordedJob

CAUSE = "short-step-calls"
LOOP = "/job/train.py(30): <module>"


def train(step_ms=1.5, label="Model.fit", **switches):
    job = RecordedJob(framework="tensorflow", switches={"steps_per_call": 1, **switches})
    for _ in range(40):
        work = job.call("optimizer_operators\twhyidle::optimizer", HostKind.OP)
        with job.call(f"optimizer\t{label}"), work:
            job.work(LOOP, ms(step_ms))
    return job.timeline()


PAIRS = {CAUSE: Pair(sick=train, healthy=lambda: train(30))}


def test_it_leads_and_names_the_fit_and_the_setting():
    top = diagnose_job([train()]).findings[0]
    assert (top.cause, top.where[0].line) == (CAUSE, 30)
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
    assert judge(CAUSE, train(**healthy)) is None


def test_the_measured_gain_lies_within_the_prediction():
    predicted = judge(
        CAUSE, train(1.0)
    ).predicted  # 1.0 to 1.6 ms became 0.28 to 0.45 with twenty steps
    assert predicted.low <= 2.9 <= predicted.high


FITTED = "/env/site-packages/keras/src/backend/tensorflow/trainer.py(360): fit;" + LOOP
PREDICT = "/env/site-packages/keras/src/backend/tensorflow/trainer.py(584): predict;" + LOOP
SET_UP = "/env/site-packages/tensorflow/python/ops/gen_dataset_ops.py(3478): make_iterator;"


@pytest.mark.parametrize(("every", "model_ms", "found"), [(1, 1, True), (9, 1, False), (1, 60, 0)])
def test_predict_in_the_loop_is_priced_without_its_model(every, model_ms, found):
    job = RecordedJob(framework="tensorflow")
    for number in range(40):
        if number % every == 0:
            job.work(SET_UP + PREDICT, ms(9 * every if every > 1 else 5))
            with job.call("one_step_on_data", HostKind.OP):
                job.work(PREDICT, ms(model_ms))
        work = job.call("optimizer_operators\twhyidle::optimizer", HostKind.OP)
        with job.call("optimizer\tModel.train_on_batch"), work:
            job.work(LOOP, ms(4))
    proof = judge(CAUSE, job.timeline())
    assert bool(proof) == bool(found)
    if proof:
        assert proof.where[0].line == 30
        assert covers(proof, 10 / 5)
        assert catalog.load_fixes()["called-model"].decide(proof)


@pytest.mark.parametrize(("fits", "found"), [(40, True), (1, False), (0, False)])
def test_fit_of_single_batches_is_priced_without_the_model(fits, found):
    job = RecordedJob(framework="tensorflow", switches={"steps_per_call": 1})
    job.facts["fits"] = fits
    for _ in range(40):
        job.python(SET_UP + FITTED, ms(60))
        job.work(SET_UP + FITTED, ms(30))  # what TensorFlow does without the interpreter's lock
        with job.call("optimizer\tModel.fit"):
            job.work(FITTED, ms(6))
        job.python(LOOP, ms(4))
    proof = judge(CAUSE, job.timeline())
    assert bool(proof) == found
    if proof:
        assert proof.where[0].line == 30
        assert proof.predicted.low / 1.5 <= 100 / 11 <= proof.predicted.high
        assert proof.predicted.high > 15  # the data set is awaited inside the call, too
        assert "train_on_batch" in catalog.load_fixes()["called-model"].decide(proof).summary
        assert not catalog.load_fixes()["steps-per-call"].decide(proof)
