"""What of an object counts as held by whoever has it."""

import argparse
import logging
import multiprocessing
import types

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

from whyidle.probe.knobs._contents import fingerprint
from whyidle.probe.knobs._held import attributes


class Trainer:
    """Changes while it trains."""

    def __init__(self):
        self.epoch, self.size, self.words = 0, 4, ["a"]

    def collate(self, batch):
        return batch[: self.size]


def named():
    trainer = Trainer()
    return trainer, lambda batch: trainer.collate(batch)[:]


def nested():
    trainer = Trainer()
    return trainer, lambda batch: sorted(batch, key=lambda one: trainer.collate(one)[0])


def handed_on():
    trainer = Trainer()
    return trainer, lambda batch: helper(trainer, batch)


def helper(trainer, batch):
    return batch * trainer.epoch


def set_again():
    trainer = Trainer()
    first = trainer

    def collate(batch):
        nonlocal trainer
        trainer = trainer or None
        return batch

    return first, collate


def change_of(name, made):
    """Whether a change of that attribute is seen."""
    trainer, function = made()
    before = fingerprint(function)
    setattr(trainer, name, 7)
    return fingerprint(function) != before


@pytest.mark.parametrize("made", [named, nested])
def test_what_lies_around_a_function_counts_as_far_as_its_code_asks(made):
    assert change_of("size", made)
    assert not change_of("epoch", made)


@pytest.mark.parametrize("made", [handed_on, set_again])
def test_what_is_handed_on_counts_whole(made):
    assert change_of("size", made)
    assert change_of("epoch", made)


class Data(Dataset):
    """Asks one of its options."""

    def __init__(self, args):
        self.args = args

    def __getitem__(self, index):
        return [one * self.args.size for one in range(index)]


class Handing(Data):
    def __getitem__(self, index):
        return helper(self.args, index)


class Building(Data):
    def __getitem__(self, index):
        return getattr(self.args, f"size{index}")


OPTIONS = [argparse.Namespace, types.SimpleNamespace]


@pytest.mark.parametrize("kind", OPTIONS)
def test_options_count_as_far_as_they_are_asked(kind):
    args = kind(size=1, best=0.5)
    assert dict(attributes(Data(args))) == {"args.size": 1}
    data = Data(args)
    before = fingerprint(data)
    args.best = 0.1
    assert fingerprint(data) == before
    args.size = 2
    assert fingerprint(data) != before


@pytest.mark.parametrize("kind", [Handing, Building])
def test_options_that_go_anywhere_count_whole(kind):
    args = argparse.Namespace(size=1, best=0.5)
    data = kind(args)
    before = fingerprint(data)
    args.best = 0.1
    assert fingerprint(data) != before


class Collator:
    def __init__(self, model):
        self.model = model


def test_whether_a_model_was_told_to_train_is_no_change():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    held = Collator(model.train())
    before = fingerprint(held)
    model.eval()
    assert fingerprint(held) == before
    model.config = 3
    assert fingerprint(held) != before


def test_a_transform_that_was_is_another():
    held = Collator(nn.Dropout().train())
    before = fingerprint(held)
    held.model.eval()
    assert fingerprint(held) != before


def test_loggers_and_what_processes_share_are_not_looked_into():
    with multiprocessing.Manager() as manager:
        shared = Collator(manager.dict())
        before = fingerprint(shared)
        shared.model["a"] = torch.zeros(1)
        assert len(shared.model) == 1
        assert fingerprint(shared) == before
    logger = Collator(logging.getLogger("held"))
    before = fingerprint(logger)
    logger.model.setLevel(logging.ERROR)
    assert fingerprint(logger) == before
