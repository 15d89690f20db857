"""Steps that take longer as the run goes on."""

from dataclasses import replace

import numpy as np
import pytest

from cured_twins import judge
from whyidle import catalog
from whyidle.model.live.telemetry import Series, Telemetry
from whyidle.model.roles import Role
from whyidle.testing.contracts import Pair
from whyidle.testing.recorded_job import RecordedJob

CAUSE = "growing-step"
MS = 1_000_000
S = "/env/lib/python3.11/site-packages/"
LOOP = """for x, y in loader:
    out = net(x)
    loss = criterion(out, y)
    loss.backward()
    opt.step()
    right = accuracy(outputs)
"""
FORWARD = f"{S}torch/nn/modules/linear.py(134): forward;/job/train.py(2): <module>"
BACKWARD = f"{S}torch/autograd/graph.py(9): _engine_run_backward;/job/train.py(4): <module>"


def train(forward=0.0, backward=0.0, last=0.0, count=120):
    """Steps of 70 ms at first; the arguments are the growth of each part per step, ms."""
    job = RecordedJob()
    job.sources = {"/job/train.py": LOOP, "/job/score.py": "def accuracy(x):\n    return len(x)\n"}
    for step in range(count):
        job.work(FORWARD, int((20 + forward * step) * MS))
        job.backward(BACKWARD, int((40 + backward * step) * MS))
        job.step(f"{S}torch/optim/sgd.py(9): step;/job/train.py(5): <module>", 10 * MS)
        if last:
            job.work("/job/train.py(6): <module>", int(last * step * MS))
    return job


def test_a_growing_metric_is_found_with_its_line():
    proof = judge(CAUSE, train(last=1.0))
    assert proof
    assert proof.where[0].line == 6
    assert "metrics at train.py:6" in proof.headline
    assert proof.predicted.low <= (70 + 59.5) / 70 <= proof.predicted.high
    assert proof.predicted.speedup == pytest.approx((70 + 59.5) / 70, rel=0.05)
    assert "running sums" in catalog.load_fixes()["bounded-history"].decide(proof).summary


def test_a_kept_graph_is_found_in_the_backward_pass():
    proof = judge(CAUSE, train(backward=1.0))
    assert proof
    assert "backward pass at train.py:4" in proof.headline
    assert catalog.load_fixes()["detached-history"].decide(proof)


def test_a_work_that_grows_is_told_once():
    assert judge("work-beside-training", train(last=1.0)) is None


@pytest.mark.parametrize("growth", [0.0, 0.05])
def test_steps_that_hardly_grow_are_left_alone(growth):
    assert judge(CAUSE, train(last=growth)) is None


def test_one_part_that_was_disturbed_does_not_hide_the_growth():
    job = RecordedJob()
    job.sources = {"/job/train.py": LOOP, "/job/score.py": "def accuracy(x):\n    return len(x)\n"}
    for step in range(120):
        disturbed = 35 if 20 <= step < 40 else 0
        job.work(FORWARD, (20 + disturbed) * MS)
        job.backward(BACKWARD, 40 * MS)
        job.step(f"{S}torch/optim/sgd.py(9): step;/job/train.py(5): <module>", 10 * MS)
        job.work("/job/train.py(6): <module>", step * MS)
    proof = judge(CAUSE, job)
    assert proof
    assert proof.where[0].line == 6


def test_a_model_that_is_slower_in_some_parts_does_not_grow():
    job = RecordedJob()
    job.sources = {"/job/train.py": LOOP, "/job/score.py": "def accuracy(x):\n    return len(x)\n"}
    for step in range(120):
        job.work(FORWARD, (20, 19, 23, 30, 60, 50)[step // 20] * MS)
        job.backward(BACKWARD, 40 * MS)
        job.step(f"{S}torch/optim/sgd.py(9): step;/job/train.py(5): <module>", 10 * MS)
    assert judge(CAUSE, job) is None


def test_steps_that_only_vary_do_not_grow():
    job = RecordedJob()
    job.sources = {"/job/train.py": LOOP, "/job/score.py": "def accuracy(x):\n    return len(x)\n"}
    for step in range(120):
        job.work(FORWARD, 20 * MS)
        job.backward(BACKWARD, 40 * MS)
        job.step(f"{S}torch/optim/sgd.py(9): step;/job/train.py(5): <module>", 10 * MS)
        job.work("/job/train.py(6): <module>", (30, 60, 20, 70, 10, 65)[step // 20] * MS)
    assert judge(CAUSE, job) is None


def with_cores(job, cores, late):
    """The job on a machine whose other programs have none of the cores in the first half, and
    ``late`` = (the job's, the others') in the second."""
    timeline = job.timeline()
    ends = timeline.host.end[timeline.host.end > 0]
    times = timeline.base_ns + np.linspace(0, int(ends.max()), 101).astype(np.int64)
    # half of the steps take less than half of the time
    middle = int(np.searchsorted(times, timeline.base_ns + step_starts(timeline)[60]))

    def series(first, second):
        rate = np.where(np.arange(100) < middle, first, second)
        return Series(times, np.append(0.0, np.cumsum(rate * np.diff(times) / 1e9)))

    own, others = late
    read = {
        "job_cpu_user_s": series(1.0, own),
        "machine_cpu_user_s": series(1.0, own + others),
        "machine_cpu_idle_s": series(cores - 1.0, cores - own - others),
    }
    return replace(timeline, telemetry=Telemetry(read, {}))


def step_starts(timeline):
    return np.sort(timeline.host.start[timeline.rows_of(Role.OPTIMIZER)])


@pytest.mark.parametrize(
    ("cores", "late", "found"),
    [(2.0, (0.4, 1.6), False), (2.0, (1.0, 1.0), True), (8.0, (0.4, 1.6), True)],
    ids=["cores are taken", "the job computes more", "cores are to spare"],
)
def test_other_programs_that_take_the_cores_explain_growth(cores, late, found):
    timeline = with_cores(train(last=1.0), cores, late)
    assert (judge(CAUSE, timeline) is not None) == found


PAIRS = {
    CAUSE: Pair(sick=lambda: train(last=1.0), healthy=lambda: train(forward=0.3, backward=0.6))
}
