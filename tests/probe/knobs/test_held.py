"""What of an object counts as held by whoever has it."""

import argparse
import functools
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


class Wrapping(Dataset):
    """Reads the options of what it wraps."""

    def __init__(self, base):
        self.base = base

    def __getitem__(self, index):
        return index * self.base.args.best


def test_options_of_what_a_dataset_wraps_count_whole():
    args = argparse.Namespace(size=1, best=0.5)
    data = Wrapping(Data(args))
    before = fingerprint(data)
    args.best = 0.1
    assert fingerprint(data) != before


class Base:
    def __init__(self):
        self.epoch, self.size = 0, 4

    def collate(self, batch):
        return batch * self.epoch * self.size


class Super(Base):
    def collate(self, batch):
        return super().collate(batch)


class Helped(Base):
    def collate(self, batch):
        return helper(self, batch)


class Any(Base):
    def collate(self, batch):
        return batch * getattr(self, "epo" + "ch")


class Called(Base):
    def __call__(self, batch):
        return batch * self.epoch

    def collate(self, batch):
        return self(batch)


class Settings:
    """As wrappers of dicts are."""

    def __init__(self):
        self.data = types.SimpleNamespace(epoch=0, size=4)

    def __getattr__(self, name):
        return getattr(self.__dict__["data"], name)

    def __setattr__(self, name, value):
        if name == "data":
            self.__dict__[name] = value
        else:
            setattr(self.data, name, value)


def settings():
    made = Settings()
    return made, lambda batch: batch * made.size * made.epoch


KINDS = [Super, Helped, Any, Called]


def around(kind):
    made = kind()
    return made, lambda batch: made.collate(batch)[:]


def bound(kind):
    made = kind()
    return made, made.collate


@pytest.mark.parametrize("made", [
    settings,
    *(functools.partial(way, kind) for way in (around, bound) for kind in KINDS),
])  # fmt: skip
def test_what_cannot_be_seen_to_be_asked_counts(made):
    assert change_of("epoch", made)
    assert change_of("size", made)


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


class HandedOn(Data):
    """Itself."""

    def __getitem__(self, index):
        return of_dataset(self, index)


def of_dataset(data, index):
    return index * data.args.best


class Cached(Data):
    @functools.cached_property
    def scale(self):
        return self.args.best

    def __getitem__(self, index):
        return index * self.args.size * self.scale


def decorated(function):
    def inner(self, index):
        return function(self, index) * self.args.best

    return inner


class Decorated(Data):
    @decorated
    def __getitem__(self, index):
        return index * self.args.size


class Silent(Dataset):
    """Somebody else asks for them."""

    def __init__(self, args):
        self.args = args

    def __getitem__(self, index):
        return index


@pytest.mark.parametrize("kind", [Handing, Building, HandedOn, Cached, Decorated, Silent])
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
