"""Freeing the previous batch does not count as the loop's own Python."""

from dataclasses import replace

import numpy as np
import pytest

from cured_twins import judge
from whyidle.model.loader_tables import TAKE, Loading
from whyidle.testing.builder import ms
from whyidle.testing.recorded_job import RecordedJob

LOOP = "/job/train.py(20): train"
FORWARD = "/job/model.py(8): forward;" + LOOP
CAUSES = ("python-overhead-in-step", "python-between-operators")


def train(*, unpickled, first=0.0, later=0.0):
    """Steps of 20 ms and a batch handed over in 4 ms, of which unpickling takes so many; Python
    runs ``first``, right after that, or ``later``, after half of the forward pass."""
    job, takes = RecordedJob(), []
    for _ in range(60):
        with job.call("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
            begin = job.now
            job.wait(LOOP, ms(4))
            takes.append((begin, job.now, ms(unpickled), 0, 1))
        job.work(LOOP, ms(0.2))
        job.python(FORWARD, ms(first))
        job.work(FORWARD, ms(5))
        job.python(FORWARD, ms(later))
        job.work(FORWARD, ms(5))
        job.backward(LOOP, ms(9))
        job.step(LOOP, ms(1))
    timeline = job.timeline()
    table = np.array(takes, TAKE)
    table["start"] -= timeline.base_ns
    table["end"] -= timeline.base_ns
    return replace(timeline, loading=Loading(takes=table))


@pytest.mark.parametrize("cause", CAUSES)
def test_right_after_a_batch_of_objects_it_is_freed(cause):
    assert judge(cause, train(unpickled=4, first=1.5)) is None


@pytest.mark.parametrize(
    "job", [{"unpickled": 0.1, "first": 1.5}, {"unpickled": 4, "later": 1.5}], ids=["lean", "later"]
)
def test_python_of_the_loop_is_still_blamed(job):
    proof = judge(CAUSES[0], train(**job))
    assert 1.5 / 26 < proof.high < 2 * 1.5 / 26
