"""An optimizer's step that holds a training pass is taken to begin behind it."""

import numpy as np
import pytest

from whyidle.analysis.intervals import union_of
from whyidle.model.timeline import HostEvents
from whyidle.readers.kineto import load
from whyidle.readers.kineto.optimizer_closures import without_closures
from whyidle.testing.builder import ms
from whyidle.testing.recorded_job import RecordedJob

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

NAMES = ["Optimizer.step#AdamW.step", "whyidle::backward", "Optimizer.step#SGD.step"]
STEP, BACKWARD, OTHER = range(3)


def begins(*rows):
    """Where those begin that are given as (name, begin, end, thread), in their order."""
    name, start, end, thread = np.array(rows, np.int64).reshape(-1, 4).T
    calls = HostEvents.from_columns(
        start, end, kind=0, name=name, thread=thread, corr=np.arange(len(rows))
    )
    found = without_closures(calls, NAMES, by_thread=True)
    return found.start[np.argsort(found.corr)].tolist()


def test_a_step_begins_behind_the_pass_inside_it():
    assert begins((BACKWARD, 20, 60, 1), (STEP, 10, 70, 1)) == [20, 60]


def test_behind_the_last_one_of_several():
    rows = (BACKWARD, 20, 30, 1), (BACKWARD, 40, 55, 1), (STEP, 10, 70, 1)
    assert begins(*rows) == [20, 40, 55]


def test_a_pass_before_it_or_of_another_thread_moves_nothing():
    assert begins((BACKWARD, 0, 9, 1), (STEP, 10, 70, 1)) == [0, 10]
    assert begins((BACKWARD, 5, 15, 1), (STEP, 10, 70, 1)) == [5, 10]
    assert begins((BACKWARD, 20, 60, 2), (STEP, 10, 70, 1)) == [20, 10]
    assert begins((BACKWARD, 60, 80, 1), (STEP, 10, 70, 1)) == [60, 10]


def test_every_step_has_its_own():
    rows = (STEP, 10, 30, 1), (BACKWARD, 12, 25, 1), (STEP, 40, 70, 1), (OTHER, 80, 90, 1)
    assert begins(*rows) == [25, 12, 40, 80]


def test_without_a_step_or_a_pass_nothing_changes():
    assert begins((STEP, 10, 30, 1)) == [10]
    assert begins((BACKWARD, 10, 30, 1)) == [10]
    assert begins() == []


def test_a_watched_job_whose_optimizer_trains_inside_its_step():
    """Of 40 ms of each step 4 ms are the update."""
    job = RecordedJob()
    for _ in range(20):
        with job.call("Optimizer.step#AdamW.step"):
            job.work("/job/train.py(12): closure", ms(16))
            job.backward("/job/train.py(13): closure", ms(20))
            job.work("/torch/optim/adamw.py(5): step", ms(4))
    updates = times(job.timeline(), "Optimizer.step#AdamW.step")
    assert updates.length.tolist() == [ms(4)] * 20


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Three steps as Lightning makes them: all of the training inside the optimizer's step."""
    path = tmp_path_factory.mktemp("closures") / "trace.json"
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)])
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(256, 256)

    def closure():
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        return loss

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        for _ in range(3):
            optimizer.step(closure)
    prof.export_chrome_trace(str(path))
    return load(path)


def times(timeline, start):
    host = timeline.host
    rows = [i for i, name in enumerate(host.name) if timeline.names[name].startswith(start)]
    return union_of(host.start[rows], host.end[rows])


def test_a_trace_of_pytorchs_profiler(recorded):
    updates = times(recorded, "Optimizer.step#AdamW.step")
    assert len(updates.start) == 3
    assert not (updates & times(recorded, "autograd::engine::evaluate_function")).total
    assert not (updates & times(recorded, "aten::linear")).total
    adam = times(recorded, "aten::sqrt") | times(recorded, "aten::_foreach_sqrt")
    assert adam.total
    assert not (adam - updates).total


def test_its_rows_are_in_order(recorded):
    assert (np.diff(recorded.host.start) >= 0).all()
