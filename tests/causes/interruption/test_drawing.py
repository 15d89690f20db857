"""Curves that are drawn now and then, of which only stack samples tell."""

import pytest

from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.testing.builder import ms, us
from whyidle.testing.recorded_job import RecordedJob

DRAW = "/lib/site-packages/matplotlib/figure.py(3515): savefig;/job/train.py(56): <module>"
SEND = "/lib/site-packages/wandb/sdk/wandb_run.py(1700): log;/job/train.py(56): <module>"


def drawing(every, *, stack=DRAW, steps=60, look=4):
    """Draws in each so many steps. Of the others a few are looked at before the next batch, and
    these looks wait for the lock until that is asked for."""
    job = RecordedJob()
    for step in range(steps):
        job.batch(us(200))
        job.work("/job/train.py(41): <module>", ms(4))
        job.backward("/job/train.py(43): <module>", ms(2))
        job.step("/job/train.py(44): <module>", ms(2))
        if step % every == every - 1:
            job.python(stack, ms(60))
        elif step % look:
            job.now += us(600)
        else:
            job.python("/job/train.py(46): <module>", us(600))
    return job.timeline()


def judge(timeline):
    return catalog.load_causes()["blocking-logging-upload"].test(Facts(timeline))


def value(proof, quantity):
    return next(one.value for one in proof.evidence if one.quantity == quantity)


@pytest.mark.parametrize("every", [5, 10])
def test_steps_in_which_nobody_looked_are_not_counted(every):
    """What a look finds speaks for the same lines of other steps too, as for their time."""
    assert value(judge(drawing(every)), LEAST) == pytest.approx(60 / every, abs=1)


def test_what_is_reported_seldom_already_wins_less_by_being_thinned():
    often, seldom = (judge(drawing(every, look=1)) for every in (1, 10))
    left = [1.0 - (1.0 - 1.0 / p.predicted.speedup) / value(p, SHARE) for p in (often, seldom)]
    assert left == pytest.approx([0.02, 0.2], abs=0.05)


SHARE = "device idle while logging, share of step"
LEAST = "sampled steps with logging"


@pytest.mark.parametrize(("stack", "pictures"), [(DRAW, True), (SEND, False)])
def test_pictures_have_no_histograms_and_no_threads(stack, pictures):
    proof = judge(drawing(10, stack=stack))
    told = catalog.load_fixes()["fewer-reports"].decide(proof).summary
    assert told.startswith("draw") == pictures
    assert ("histograms" in told) != pictures
    assert ("thread" in told) != pictures


def test_a_count_of_looks_is_told_as_the_least():
    told = [one.quantity for one in judge(drawing(1)).evidence]
    assert "sampled steps with logging" in told
    assert "steps with logging" not in told


@pytest.mark.parametrize(
    ("stack", "mlflow", "histograms"),
    [
        ("torch/utils/tensorboard/writer.py(300): add_histogram", False, True),
        ("torch/utils/tensorboard/writer.py(300): add_scalar", False, False),
        ("mlflow/tracking/client.py(900): log_metric", True, False),
    ],
)
def test_fixes_are_told_for_the_tracker_that_is_used(stack, mlflow, histograms):
    proof = judge(drawing(1, stack=f"/lib/site-packages/{stack};/job/train.py(56): <module>"))
    plans = {n: catalog.load_fixes()[f"{n}-reports"].decide(proof) for n in ("background", "fewer")}
    assert ("mlflow" in plans["background"].summary) == mlflow
    assert ("copies" in plans["background"].summary) == histograms
    beside = plans["background"].predicted or proof.predicted
    assert (beside.speedup < proof.predicted.speedup) == histograms
    assert plans["fewer"].summary.startswith("do not log histograms") == histograms
