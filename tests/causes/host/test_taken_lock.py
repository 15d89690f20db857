"""A thread that sleeps while the interpreter's lock is taken runs no Python, and waits in no call:
nothing is blamed for it, and the verdict says where it is."""

import pytest

from cured_twins import judge
from whyidle.analysis.facts import Facts
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.timeline import HostKind
from whyidle.testing.builder import ms
from whyidle.testing.recorded_job import RecordedJob

LOOP = "/job/train.py(20): <module>"
ACT = f"/job/train.py(43): act;{LOOP}"


def train(*phases, steps=30):
    """``phases`` are methods of ``RecordedJob``, or "collect", with a duration in ms."""
    job = RecordedJob()
    for _ in range(steps):
        for name, length in phases:
            if name == "collect":
                with job.call("Python GC", HostKind.OVERHEAD):
                    job.python(ACT, ms(length))
            else:
                getattr(job, name)(ACT, ms(length))
        job.backward(LOOP, ms(30))
        job.step(LOOP, ms(10))
    return job.timeline()


CAUSES = ("python-overhead-in-step", "python-between-operators", "blocking-logging-upload")


def test_nothing_is_blamed_for_it_and_the_verdict_says_where_it_is():
    job = train(("sleep_locked", 60))
    assert Facts(job).reasons["locked"] == pytest.approx(0.6, abs=0.02)
    assert [judge(cause, job) for cause in CAUSES] == [None] * 3
    found = diagnose_job([job])
    assert found.verdict.state == "inconclusive"
    assert "act (train.py:43)" in found.verdict.headline
    assert "lock" in found.verdict.headline


def test_what_is_asleep_then_is_not_taken_for_a_blocking_call():
    """Looks between two of its sleeps find the thread running, and no lock taken."""
    job = train(("sleep_locked", 60), ("work", 5))
    assert judge("blocking-logging-upload", job) is None
    assert Facts(job).bucket_share("blocked") < 0.01


def test_python_that_runs_is_blamed():
    job = train(("python", 60))
    assert Facts(job).reasons["locked"] == 0.0
    assert judge("python-overhead-in-step", job)


def test_python_beside_a_call_that_waits_stays_python():
    """The thread runs a third of the time between two looks, and holds the lock as long."""
    job = train(("python", 30), ("wait", 60))
    facts = Facts(job)
    assert facts.reasons["locked"] == 0.0
    assert judge("python-overhead-in-step", job)
    assert judge("blocking-logging-upload", job)


def test_a_small_finding_beside_it_is_not_the_verdict():
    found = diagnose_job([train(("sleep_locked", 60), ("collect", 10))])
    (beside,) = [one for one in found.findings if one.severity != "info"]
    assert beside.cause == "python-gc-pauses"
    assert (found.verdict.state, found.verdict.bound) == ("starved", "host")
    assert "lock" in found.verdict.headline
    assert "checks that this recording allows. Also: " in found.verdict.headline


def test_a_finding_that_explains_most_is_the_verdict():
    found = diagnose_job([train(("python", 60), ("collect", 10))])
    assert found.verdict.bound == "host"
    assert found.verdict.headline.endswith(found.findings[0].headline)
