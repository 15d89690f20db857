"""Work of each step that training does not need."""

import pytest

from cured_twins import covers, judge, twin_speedup
from whyidle import catalog
from whyidle.testing.contracts import Pair
from whyidle.testing.recorded_job import RecordedJob

CAUSE = "work-beside-training"
MS = 1_000_000
S = "/env/lib/python3.11/site-packages/"
LOOP = """import copy, wandb; from tools import accuracy, draw
for x, y in loader:
    loss = criterion(out := net(x), y)
    loss.backward()
    opt.step()
    {}
"""
FORWARD = f"{S}torch/nn/modules/linear.py(134): forward;/job/train.py(3): <module>"
BACKWARD = f"{S}torch/autograd/graph.py(9): _engine_run_backward;/job/train.py(4): <module>"
TOOLS = """import matplotlib.pyplot as plt
def accuracy(out, y):
    return (out.argmax(1) == y).float().mean()
def draw(out):
    plt.imshow(out.detach().numpy())
"""
LAST = "/job/train.py(6): <module>"


def train(ms, last="right = accuracy(out, y)", stack=LAST, every=1):
    job = RecordedJob()
    job.sources = {"/job/train.py": LOOP.format(last), "/job/tools.py": TOOLS}
    for number in range(60):
        job.work(FORWARD, 20 * MS)
        job.backward(BACKWARD, 40 * MS)
        job.step(f"{S}torch/optim/sgd.py(9): step;/job/train.py(5): <module>", 10 * MS)
        if ms and number % every == 0:
            job.work(stack, ms * MS)
    return job


def test_the_prediction_covers_the_twin():
    proof = judge(CAUSE, train(30))
    assert proof
    assert covers(proof, twin_speedup(train(30), train(0)))
    assert proof.predicted.speedup == pytest.approx(100 / 70, rel=0.03)


def test_the_line_and_what_it_does_are_named():
    proof = judge(CAUSE, train(30))
    assert (proof.where[0].file, proof.where[0].line) == ("/job/train.py", 6)
    assert "metrics (train.py:6)" in proof.headline
    fixes = catalog.load_fixes()
    assert (
        "/job/train.py:6, right = accuracy(out, y)," in fixes["report-rarely"].decide(proof).summary
    )
    assert fixes["running-metric"].decide(proof)
    assert not fixes["joined-norms"].decide(proof)


@pytest.mark.parametrize("kept", ["opt", "model"])
def test_a_copy_of_a_state_is_kept_for_a_reason(kept):
    """The best weights, or a state to return to: that nobody reads it here proves nothing."""
    assert judge(CAUSE, train(30, f"best = copy.deepcopy({kept}.state_dict())")) is None


def test_work_in_functions_is_found_with_the_line_that_calls_it():
    stack = f"/job/tools.py(5): draw;{LAST}"
    proof = judge(CAUSE, train(30, "draw(out)", stack))
    assert [(place.file, place.line) for place in proof.where] == [
        ("/job/tools.py", 5),
        ("/job/train.py", 6),
    ]


def test_a_line_that_also_trains_is_left_alone():
    assert judge(CAUSE, train(30, "o.step(); print(loss.item())")) is None


def test_work_of_a_percent_is_left_alone():
    assert judge(CAUSE, train(1)) is None


@pytest.mark.parametrize(
    "needed",
    [
        "x = simulate(out)",
        "for e, p in zip(ema.parameters(), net.parameters()): e.lerp_(p, 0.1)",
        "torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)",
        "unknown_call(net)",
    ],
)
def test_training_is_left_alone(needed):
    assert judge(CAUSE, train(30, needed)) is None


def test_a_wait_for_a_tracker_is_another_cause():
    job = RecordedJob()
    job.sources = {"/job/train.py": LOOP.format("wandb.log(numbers)")}
    for _ in range(60):
        job.work(FORWARD, 20 * MS)
        job.backward(BACKWARD, 40 * MS)
        job.step(FORWARD, 10 * MS)
        job.wait(f"/env/lib/python3.11/socket.py(9): readinto;{LAST}", 30 * MS)
    assert judge(CAUSE, job) is None


PAIRS = {
    CAUSE: Pair(sick=lambda: train(30), healthy=lambda: train(30, "x = simulate(out)")),
}


@pytest.mark.parametrize(("every", "found"), [("100", False), ("10", True)])
def test_what_is_rare_already_is_no_finding(every, found):
    job = train(30, f"if number % {every} == 0: print(out.mean())")
    assert (judge(CAUSE, job) is not None) == found
