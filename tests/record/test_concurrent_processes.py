"""Training processes of one command that share the cores of a host."""

from dataclasses import replace

import pytest

from watched_run import add_facts
from whyidle.model.process_facts import Neighbours
from whyidle.model.timeline import DeviceInfo
from whyidle.record.recording_diagnosis import note_concurrent
from whyidle.testing.builder import Builder, ms


def one(begun, threads=2, device="cpu", host=None):
    """A process that trains for 100 ms."""
    made = Builder()
    with made.step():
        made.quiet(ms(100))
    settings = {"first_step": begun, "switches": {"num_threads": threads}}
    info = DeviceInfo(kind=device)
    return add_facts(replace(made.timeline(), base_ns=begun, info=info, hostname=host), settings)


def beside(*timelines):
    return [each.neighbours for each in note_concurrent(timelines)]


def test_processes_that_train_at_the_same_time_count_each_other():
    found = beside(one(1), one(ms(10), threads=3), one(ms(20), threads=1))
    assert found[0] == Neighbours(processes=2, threads=4)
    assert found[2] == Neighbours(processes=2, threads=5)


@pytest.mark.parametrize(
    "other",
    [
        one(ms(200)),  # one after the other
        one(ms(90)),  # hardly at the same time
        one(1, device="cuda"),  # its operators run on a GPU
        one(1, host="elsewhere"),
    ],
)
def test_processes_that_share_no_cores_do_not(other):
    assert beside(one(1), other)[0] is None
