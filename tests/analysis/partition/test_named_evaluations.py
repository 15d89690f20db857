"""Functions named like evaluations: those whose results each step trains on are none."""

import pytest

from cured_twins import judge
from whyidle.analysis.facts import Facts
from whyidle.testing.builder import ms
from whyidle.testing.recorded_job import RecordedJob

SCORED = """
def evaluate(model, x):
    return model(x).square().mean()

def main(model, x, opt, rounds):
    for _ in range(rounds):
        with torch.no_grad():
            x = model(x)
        for _ in range(4):
            loss = evaluate(model, x)
            opt.zero_grad()
            loss.backward()
            opt.step()
"""
REPORTED = """
def evaluate(model, x):
    return model(x).square().mean()

def main(model, x, opt, rounds):
    best = 1e9
    for _ in range(rounds):
        for _ in range(4):
            loss = model(x).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        score = evaluate(model, x)
        best = min(best, score)
"""


def line_with(source, text):
    return next(i for i, line in enumerate(source.splitlines(), 1) if text in line)


def train(source, *, every=1, mode=None):
    """Steps of 20 ms, and in every ``every``-th 10 ms for each in a function ``evaluate``."""
    job = RecordedJob()
    job.sources = {"/job/train.py": source}
    call, back = line_with(source, "= evaluate"), line_with(source, "backward")
    stack = f"/job/net.py(7): forward;/job/train.py(3): evaluate;/job/train.py({call}): main"
    for step in range(40):
        if step % every == 0:
            with job.call(mode or "mark"):
                job.work(stack, every * ms(10))
        job.backward(f"/job/train.py({back}): main", ms(15))
        job.step(f"/job/train.py({back + 1}): main", ms(5))
    return job


def test_a_function_that_gives_the_loss_is_training():
    made = train(SCORED)
    assert Facts(made.timeline()).bucket_share("evaluation") == 0.0
    assert judge("heavy-evaluation", made) is None


def test_a_function_beside_the_steps_is_an_evaluation():
    made = train(REPORTED, every=4)
    assert Facts(made.timeline()).bucket_share("evaluation") == pytest.approx(1 / 3, abs=0.05)
    assert judge("heavy-evaluation", made) is not None


def test_evaluation_mode_is_evidence_whatever_the_function():
    made = train(SCORED, mode="evaluation\tevaluation")
    assert Facts(made.timeline()).bucket_share("evaluation") == pytest.approx(1 / 3, abs=0.05)
