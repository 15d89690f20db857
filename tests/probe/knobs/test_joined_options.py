"""Options of Hugging Face's trainers of which several are made with the same, or with copies."""

import copy
import dataclasses
import pickle

import pytest
import torch
from torch import nn

KNOB = "loop.microbatch_times"


@pytest.fixture
def kit():
    return pytest.importorskip("transformers", reason="transformers is not installed")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x, labels):
        return {"loss": (self.layer(x).squeeze(-1) - labels).square().mean()}


def rows(count=96):
    return [{"x": torch.ones(8), "labels": 1.0} for _ in range(count)]


def arguments(kit, folder):
    return kit.TrainingArguments(
        str(folder), per_device_train_batch_size=2, gradient_accumulation_steps=8, report_to=[],
        use_cpu=True, save_strategy="no",
    )  # fmt: skip


def test_options_that_several_trainers_share_change_once(kit, turn, tmp_path):
    hand = turn({KNOB: 2})
    args = arguments(kit, tmp_path)
    for _ in range(3):
        kit.Trainer(Net(), args, train_dataset=rows())
    assert (args.per_device_train_batch_size, args.gradient_accumulation_steps) == (4, 4)
    assert hand.applied == {KNOB: 1}


def test_options_in_use_as_they_were_stay_so(kit, turn, tmp_path):
    """One that is trained later counts on them."""
    hand = turn({KNOB: 2})
    args = arguments(kit, tmp_path)
    kit.Trainer(Net(), args, train_dataset=None)
    kit.Trainer(Net(), args, train_dataset=rows())
    assert (args.per_device_train_batch_size, args.gradient_accumulation_steps) == (2, 8)
    assert not hand.applied


@pytest.mark.parametrize("named", [False, True])
def test_one_that_cannot_share_joined_options_has_its_own(kit, turn, tmp_path, named):
    turn({KNOB: 2})
    args = arguments(kit, tmp_path)
    first = kit.Trainer(Net(), args, train_dataset=rows())
    given = ((Net(),), {"args": args}) if named else ((Net(), args), {})
    second = kit.Trainer(*given[0], train_dataset=rows(95), **given[1])
    for args, sizes in ((first.args, (4, 4)), (second.args, (2, 8))):
        assert (args.per_device_train_batch_size, args.gradient_accumulation_steps) == sizes


def test_a_script_that_sets_joined_options_anew(kit, turn, tmp_path):
    turn({KNOB: 2})
    args = arguments(kit, tmp_path)
    for size in (2, 3, 6):  # the last is what the one before it was made
        args.per_device_train_batch_size = size
        kit.Trainer(Net(), args, train_dataset=rows())
        assert (args.per_device_train_batch_size, args.gradient_accumulation_steps) == (size * 2, 4)


def test_copies_of_joined_options_are_joined_and_saved_as_numbers(kit, turn, tmp_path):
    turn({KNOB: 2})
    args = arguments(kit, tmp_path)
    kit.Trainer(Net(), args, train_dataset=rows())
    for one in (copy.deepcopy(args), dataclasses.replace(args)):
        kit.Trainer(Net(), one, train_dataset=rows())
        assert (one.per_device_train_batch_size, one.gradient_accumulation_steps) == (4, 4)
        assert type(pickle.loads(pickle.dumps(one)).gradient_accumulation_steps) is int


def test_options_that_are_not_named(kit, turn, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hand = turn({KNOB: 2})
    kit.Trainer(Net(), train_dataset=rows())
    assert "without options" in hand.declined[KNOB]
