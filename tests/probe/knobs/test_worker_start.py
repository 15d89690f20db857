"""What loader workers do before their first batch: the cores that they may use."""

import os

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from whyidle.probe.core import cpu_cores as cores

pytestmark = [
    pytest.mark.skipif(
        not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
        reason="needs two cores, and affinity: Linux",
    ),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # there is one core for two
]
FULL = {"loader.full_affinity": True}


class Allowed(Dataset):
    """How many cores the worker may use that makes it."""

    def __len__(self):
        return 4

    def __getitem__(self, _):
        return torch.tensor(len(os.sched_getaffinity(0)))


@pytest.fixture
def given(monkeypatch):
    """The cores that this process has; while the test runs it is bound to the first of them."""
    whole = os.sched_getaffinity(0)
    monkeypatch.setattr(cores, "_given", [])
    cores.remember_given_cores(whole)
    os.sched_setaffinity(0, {min(whole)})
    yield whole
    os.sched_setaffinity(0, whole)


def bind_to_one(_):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def seen(**more):
    """How many cores workers have that are made so."""
    return {int(one) for one in torch.cat(list(DataLoader(Allowed(), num_workers=2, **more)))}


def test_workers_may_use_all_cores_of_the_command_again(turn, given):
    assert seen() == {1}
    session = turn(FULL)
    assert seen() == {len(given)}
    assert session.applied == {"loader.full_affinity": 1}
    assert len(os.sched_getaffinity(0)) == 1  # the training process stays where it was put


def test_it_goes_with_threads_and_the_scripts_own_binding_comes_last(turn, given):
    turn({**FULL, "loader.worker_threads": 1})
    assert seen() == {len(given)}
    assert seen(worker_init_fn=bind_to_one) == {1}


def test_a_loader_without_workers_is_left_alone(turn, given):
    session = turn(FULL)
    assert len(list(DataLoader(Allowed()))) == 4
    assert not session.applied


def test_cores_that_were_taken_away_since_are_no_fault(turn, given):
    cores.remember_given_cores({max(given) + 4096})
    turn(FULL)
    assert seen() == {1}


def test_without_knowing_what_the_command_was_given_nothing_is_done(turn, given):
    cores.remember_given_cores(None)
    session = turn(FULL)
    assert seen() == {1}
    assert "not known" in session.declined["loader.full_affinity"]
