"""The step divided by line and purpose."""

import pytest

from whyidle.analysis.facts import Facts
from whyidle.model.purposes import Purpose
from whyidle.testing.recorded_job import RecordedJob

MS = 1_000_000
S = "/env/lib/python3.11/site-packages/"
TRAIN = """for x, y in loader:
    out = net(x)
    loss = criterion(out, y)
    loss.backward()
    opt.step()
    right = score(out, y)
"""
METRIC = "def score(out, y):\n    return (out.argmax(1) == y).sum()\n"
FORWARD = f"{S}torch/nn/modules/linear.py(134): forward;/job/train.py(2): <module>"
BACKWARD = f"{S}torch/autograd/graph.py(9): _engine_run_backward;/job/train.py(4): <module>"
UPDATE = f"{S}torch/optim/sgd.py(9): step;/job/train.py(5): <module>"
SCORE = "/job/score.py(7): compare;/job/train.py(6): <module>"


def steps(count=30, score_ms=10):
    job = RecordedJob()
    job.sources = {"/job/train.py": TRAIN, "/job/score.py": METRIC}
    for _ in range(count):
        job.work(FORWARD, 20 * MS)
        job.backward(BACKWARD, 50 * MS)
        job.step(UPDATE, 10 * MS)
        job.work(SCORE, score_ms * MS)
    return job


def test_lines_and_purposes_add_up_to_the_step():
    facts = Facts(steps().timeline())
    lines = {(line.purpose, line.place.line): line for line in facts.lines}
    shares = {key: line.time / facts.scope.total for key, line in lines.items()}
    assert shares == {
        (Purpose.BACKWARD, 4): pytest.approx(50 / 90, abs=0.02),
        (Purpose.FORWARD, 2): pytest.approx(20 / 90, abs=0.02),
        (Purpose.OPTIMIZER, 5): pytest.approx(10 / 90, abs=0.02),
        (Purpose.OTHER, 7): pytest.approx(10 / 90, abs=0.02),
    }
    assert sum(shares.values()) == pytest.approx(1, abs=0.01)


def test_only_what_training_does_not_need_reports():
    reporting = [line for line in Facts(steps().timeline()).lines if line.only_reports]
    assert [(line.place.line, line.caller.line) for line in reporting] == [(7, 6)]


def test_calls_without_a_sample_belong_to_the_line_of_the_others():
    job = steps(10)
    for _ in range(20):
        job.work(FORWARD, 20 * MS)
        with job.call("whyidle::backward"):
            job.now += 50 * MS
        job.step(UPDATE, 10 * MS)
        job.work(SCORE, 10 * MS)
    facts = Facts(job.timeline())
    backward = [line for line in facts.lines if line.purpose is Purpose.BACKWARD]
    assert [line.place.line for line in backward] == [4]
    assert backward[0].time / facts.scope.total == pytest.approx(50 / 90, abs=0.02)


def test_a_batch_is_data_whatever_makes_it():
    job = steps(5)
    for _ in range(25):
        with job.call("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
            job.python(f"{S}PIL/Image.py(9): resize;/job/data.py(3): __getitem__", 40 * MS)
        job.work(FORWARD, 20 * MS)
        job.backward(BACKWARD, 50 * MS)
        job.step(UPDATE, 10 * MS)
    lines = Facts(job.timeline()).lines
    assert {line.purpose for line in lines if "data.py" in line.place.file} == {Purpose.DATA}


HOOK = f"{S}lightning/pytorch/trainer/connectors/logger_connector/result.py(412): log"
CLOSURE = f"{HOOK};{S}torch/optim/adam.py(227): step;/job/train.py(5): <module>"


def test_a_closure_is_no_update_in_calls_without_a_sample_either():
    """Each step's optimizer logs for 5 of 10 ms; a sample shows it in one step of six, and the
    update in another."""
    job = RecordedJob()
    job.sources = {"/job/train.py": TRAIN}
    for number in range(60):
        job.work(FORWARD, 20 * MS)
        with job.call("whyidle::optimizer"), job.call("Optimizer.step#Adam.step"):
            if number % 6 == 0:
                job.work(CLOSURE, 5 * MS)
                job.now += 5 * MS
            elif number % 6 == 3:
                job.now += 5 * MS
                job.work(UPDATE, 5 * MS)
            else:
                job.now += 10 * MS
    facts = Facts(job.timeline())
    lines = {line.purpose: line for line in facts.lines}
    for purpose in (Purpose.LOGGING, Purpose.OPTIMIZER):
        line = lines[purpose]
        assert line.time / facts.scope.total == pytest.approx(5 / 30, abs=0.02)
        assert line.sampled_time.total == pytest.approx(line.time, rel=0.05)
    assert lines[Purpose.LOGGING].only_reports
    assert not lines[Purpose.OPTIMIZER].only_reports
