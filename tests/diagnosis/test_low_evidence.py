"""Hardly any steady step was seen: nothing is critical, and no verdict but by direct evidence."""

import pytest

from whyidle.diagnosis import low_evidence
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.testing.builder import Builder, ms
from whyidle.testing.recorded_job import RecordedJob

LOOP = "/job/train.py(20): train"
SCORE = f"/job/train.py(30): score;{LOOP}"


def train(steps, python=60, **facts):
    job = RecordedJob(**facts)
    for _ in range(steps):
        job.python(SCORE, ms(python))
        job.backward(LOOP, ms(30))
        job.step(LOOP, ms(10))
    return job.timeline()


def first(diagnosis):
    return diagnosis.findings[0]


def test_too_few_steps_promise_nothing():
    found = diagnose_job([train(low_evidence.LEAST - 1)])
    assert found.steps.count == low_evidence.LEAST - 1
    assert found.verdict.state == "inconclusive"
    assert f"Only {low_evidence.LEAST - 1} steady steps" in found.verdict.headline
    assert (first(found).cause, first(found).severity) == ("python-overhead-in-step", "info")
    assert (first(found).fixes, first(found).removal) == ([], None)
    assert first(found).confidence <= low_evidence.DOUBTFUL


def test_as_many_as_are_needed_are_judged():
    found = diagnose_job([train(low_evidence.LEAST)])
    assert found.verdict.state == "starved"
    assert (first(found).cause, first(found).severity) == ("python-overhead-in-step", "critical")
    assert first(found).confidence > low_evidence.DOUBTFUL


def test_few_healthy_steps_get_no_clean_bill():
    headline = diagnose_job([train(3, python=0)]).verdict.headline
    assert "Only 3 steady steps" in headline
    assert "sign" not in headline


def test_a_mode_that_is_on_is_as_sure_after_three_steps():
    seen = {"switches": {"seen": {"anomaly_mode": 10, "looks": 10}}}
    found = diagnose_job([train(3, python=0, **seen)])
    (mode,) = [one for one in found.findings if one.cause == "debug-mode-left-on"]
    assert mode.confidence > low_evidence.DOUBTFUL
    assert found.verdict.state != "inconclusive"
    assert found.verdict.headline.endswith(mode.headline)


@pytest.mark.parametrize("steps", [2, 4])
def test_steps_that_somebody_chose_to_record_are_enough(steps):
    trace = Builder()
    for _ in range(steps):
        with trace.step():
            trace.op("aten::mm", kernels=[("sgemm", ms(5))])
            trace.sync()
    assert "steady steps were seen" not in diagnose_job([trace.timeline()]).verdict.headline


def glimpse(looks, steps=30):
    """A job that sleeps in each step, and so many looks at it."""
    job = RecordedJob()
    for _ in range(steps):
        job.wait("/job/train.py(25): train", ms(60))
        job.backward(LOOP, ms(30))
        job.step(LOOP, ms(10))
    every = len(job.samples) // looks
    job.samples = job.samples[every // 2 :: every][:looks]
    return diagnose_job([job.timeline()])


def test_a_few_looks_are_a_sign_and_no_more():
    found = first(glimpse(low_evidence.LOOKS - 1))
    assert found.cause == "blocking-logging-upload"
    assert found.evidence[0].samples < low_evidence.LOOKS
    assert (found.severity, found.confidence) == ("warning", low_evidence.DOUBTFUL)


def test_enough_looks_are_as_sure_as_ever():
    found = first(glimpse(100))
    assert found.cause == "blocking-logging-upload"
    assert found.severity == "critical"
    assert found.confidence > low_evidence.DOUBTFUL
