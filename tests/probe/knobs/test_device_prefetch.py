"""The next batch copied ahead: on the emulated device in its own process, and piece by piece."""

import pytest
import torch
from torch.utils.data import DataLoader

from whyidle.probe.knobs import _device_prefetch


@pytest.fixture(scope="module")
def seen(told_by):
    """What became of each job, see ``on_emulated``."""
    return told_by("on_emulated.py")


JOBS = ("plain", "indexed", "twice", "some", "persistent", "one by one")


@pytest.mark.parametrize("job", JOBS)
def test_the_next_batch_is_there_when_it_is_asked_for(seen, job):
    assert seen[job]["took"]
    assert not seen[job]["declined"]


def test_no_number_changes_in_any_job(seen):
    assert {name: (job["same"], job["faults"]) for name, job in seen.items()} == {
        name: (True, []) for name in seen
    }


@pytest.mark.parametrize("job", ["changed in place", "another type", "a part"])
def test_what_is_not_the_same_move_is_made_by_the_script(seen, job):
    assert not seen[job]["took"]


@pytest.mark.parametrize(
    ("job", "why"),
    [
        ("changed as array", "past PyTorch"),
        ("no workers", "without workers"),
        ("not pinned", "does not pin"),
        ("own type", "no tensors, lists or dicts of them: __main__.Bag"),
        ("little memory", "too little memory"),
    ],
)
def test_it_declines(seen, job, why):
    assert not seen[job]["took"]
    assert why in seen[job]["declined"]


def test_a_copy_is_not_waited_for_unless_the_batch_is_changed_after_it(seen):
    assert seen["not waited for, plain"]["took"]
    assert not seen["not waited for, changed"]["took"]
    assert "changes a batch" in seen["not waited for, changed"]["declined"]


def test_copies_run_beside_the_computing(seen):
    """Of the copies' time, what is left with nothing computed beside it: without the knob all of
    it, whatever the machine does, and with it a third where batches are ready in time."""
    assert seen["long copies"]["exposed"] < 0.7 * seen["long copies"]["exposed before"]


def test_on_a_cpu_nothing_is_copied_ahead(turn):
    hand = turn({"loader.device_prefetch": 1})
    assert len(list(DataLoader(range(8), num_workers=1, batch_size=2))) == 4
    assert "no accelerator" in hand.declined["loader.device_prefetch"]
    assert not hand.applied


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("cpu",), {}),
        (("meta",), {}),
        (("xla",), {}),
        (("no such device",), {}),
        ((torch.float16,), {}),
        (("cuda", torch.float16), {}),
        (("cuda",), {"dtype": torch.float16}),
        (("cuda",), {"copy": True}),
        ((torch.ones(1),), {}),
        ((), {}),
    ],
)
def test_what_is_more_than_a_move_to_an_accelerator(args, kwargs):
    assert _device_prefetch.target(args, kwargs) is None


def test_moves_to_an_accelerator():
    assert _device_prefetch.target(("cuda:1",), {}) == (torch.device("cuda", 1), True)
    asked = {"device": torch.device("cuda", 0), "non_blocking": True}
    assert _device_prefetch.target((), asked) == (torch.device("cuda", 0), False)
    assert _device_prefetch.target(("cuda", "cuda:2"), {}) == (torch.device("cuda", 2), True)


def test_parts_of_a_batch():
    x = torch.ones(2)
    batch = {"a": [x, 3], "b": (x.to("meta"), {"c": x}), "d": torch.nn.Parameter(x)}
    assert [path for path, _ in _device_prefetch._parts(batch)] == [("a", 0), ("b", 1, "c")]


def test_a_fault_in_the_knob_is_not_the_jobs(turn, faults, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("a planted fault")

    monkeypatch.setattr(_device_prefetch.Prefetch, "handed", broken)
    hand = turn({"loader.device_prefetch": 1})
    assert len(list(DataLoader(range(8), batch_size=2))) == 4
    assert "planted" in hand.declined["loader.device_prefetch"]
    assert len(faults(hand)) == 1
