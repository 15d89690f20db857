"""Copies that need not be waited for; ``meta`` stands for a device."""

import pytest
import torch
from torch.utils.data import _utils

PLAIN = torch.Tensor.to


@pytest.fixture
def asked(monkeypatch):
    """What ``Tensor.to`` was asked for; and memory counts as pinned."""
    calls = []

    def to(self, *args, **kwargs):
        calls.append((args, kwargs))
        return PLAIN(self, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "to", to)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self, *_: self.clone())
    return calls


@pytest.fixture
def hand(asked, turn):
    made = turn({"copy.non_blocking": True})
    yield made
    made.back()


def batch():
    return _utils.pin_memory.pin_memory({"x": torch.ones(4, 3), "y": [torch.ones(4)]})


def test_what_the_loader_pinned_is_copied_without_waiting(hand, asked):
    made = batch()
    assert made["x"].to("meta").device.type == "meta"
    made["y"][0].to(torch.device("meta"), torch.float16)
    assert [kwargs for _, kwargs in asked] == [{"non_blocking": True}] * 2
    assert hand.applied == {"copy.non_blocking": 2}


def test_parts_of_it_as_well(hand, asked):
    made = batch()
    made["x"][:, :-1].to("meta")
    assert asked[-1][1] == {"non_blocking": True}


def test_memory_that_the_script_pinned_may_be_written_anew(hand, asked):
    batch()
    own = torch.ones(3).pin_memory()
    own.to("meta")
    torch.ones(3).to("meta")
    assert [kwargs for _, kwargs in asked] == [{}, {}]
    assert not hand.applied


@pytest.mark.parametrize("args", [("meta", torch.float16, False), ("meta", None, True)])
def test_what_the_script_says_stands(hand, asked, args):
    batch()["x"].to(*args)
    batch()["x"].to("meta", non_blocking=False)
    assert asked == [(args, {}), (("meta",), {"non_blocking": False})]
    assert not hand.applied


def test_another_type_on_the_host_is_no_copy_to_a_device(hand):
    made = batch()
    assert made["x"].to(torch.float64).dtype == torch.float64
    assert not hand.applied
