"""Transforms in another order, where it is proven to give the same samples."""

import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from whyidle.probe.frameworks.torch.loader_facts import describe
from whyidle.probe.knobs import _ordering, _reordering

EDIT = {_reordering.KNOB: True}
SIDE, CUT = 160, 32
FIRST = 3 * _ordering.PROVE
"""samples by which an order is found, if there is one"""


class Compose:
    """Of the shape of torchvision's."""

    def __init__(self, *transforms):
        self.transforms = list(transforms)

    def __call__(self, picture):
        for transform in self.transforms:
            picture = transform(picture)
        return picture


class Module(nn.Module):
    """The same as a module, as newer ones are."""

    def __init__(self, *transforms):
        super().__init__()
        self.transforms = list(transforms)

    def forward(self, *given):
        (picture,) = given
        for transform in self.transforms:
            picture = transform(picture)
        return picture


def gamma(picture):
    """Dear, and of each pixel alone."""
    return np.power(picture, 1.7).astype(np.float32)


def scaled(picture):
    return gamma(picture) / picture.mean()


def noisy(picture):
    rows = [random.random() for _ in range(len(picture))]
    return gamma(picture) + np.array(rows, np.float32)[:, None, None]


def in_place(picture):
    picture *= 2.0
    return gamma(picture)


def clipped(picture):
    """As each pixel is, but where one anywhere is very bright."""
    return gamma(picture) if picture.max() < 90.0 else gamma(picture) / 2


def crop(picture):
    top, left = (random.randrange(SIDE - CUT) for _ in range(2))
    return picture[top : top + CUT, left : left + CUT]


def tensor(picture):
    return torch.from_numpy(np.ascontiguousarray(picture)).permute(2, 0, 1)


class Pictures(Dataset):
    def __init__(self, transform, items=FIRST + 32, bright=()):
        self.transform = transform
        self.items = items
        self.bright = bright

    def __len__(self):
        return self.items

    def __getitem__(self, index):
        picture = np.random.default_rng(index).random((SIDE, SIDE, 3), dtype=np.float32)
        if index in self.bright:
            picture[0, 0] = 99.0
        return self.transform(picture)


def samples(dataset, **more):
    """All of them, and where the generator is afterwards."""
    random.seed(5)
    torch.manual_seed(5)
    made = torch.cat([torch.as_tensor(one) for one in DataLoader(dataset, batch_size=8, **more)])
    return made, random.random()


def same(one, other):
    return torch.equal(one[0], other[0]) and one[1] == other[1]


@pytest.mark.parametrize("kind", [Compose, Module])
def test_a_random_crop_goes_before_what_is_done_to_each_pixel(turn, kind):
    plain = samples(Pictures(kind(gamma, tensor_of_rows, crop_rows)))
    hand = turn(EDIT)
    assert same(samples(Pictures(kind(gamma, tensor_of_rows, crop_rows))), plain)
    assert hand.applied[_reordering.KNOB] >= 16
    assert hand.chose[_reordering.KNOB].startswith("transforms in the order crop_rows")
    assert not hand.declined


def tensor_of_rows(picture):
    return torch.as_tensor(picture)


def crop_rows(picture):
    top = random.randrange(SIDE - CUT)
    return picture[top : top + CUT, 8 : 8 + CUT]


def test_each_worker_finds_out_for_itself(turn):
    dataset = Pictures(Compose(gamma, crop, tensor), 2 * FIRST)
    plain = samples(dataset, num_workers=2)
    turn(EDIT)
    assert same(samples(dataset, num_workers=2), plain)


@pytest.mark.parametrize(
    ("dear", "why"),
    [
        (scaled, _reordering.NONE),  # depends on what would be cut away
        (noisy, _reordering.NONE),  # would draw other random numbers
        (in_place, _reordering.WRITES),
    ],
)
def test_an_order_that_gives_other_samples_is_not_used(turn, dear, why):
    plain = samples(Pictures(Compose(dear, crop)))
    hand = turn(EDIT)
    assert same(samples(Pictures(Compose(dear, crop))), plain)
    assert hand.declined == {_reordering.KNOB: why}
    assert not hand.applied


def test_nothing_that_makes_samples_smaller_is_nothing_to_do(turn):
    hand = turn(EDIT)
    samples(Pictures(Compose(gamma, tensor), items=16))
    assert hand.declined == {_reordering.KNOB: _reordering.NONE}


def test_the_first_sample_that_comes_out_otherwise_ends_it(turn, monkeypatch):
    monkeypatch.setattr(_reordering, "EVERY", 2)
    late = range(FIRST, FIRST + 32)
    plain = samples(Pictures(Compose(clipped, crop), bright=late))
    hand = turn(EDIT)
    found = samples(Pictures(Compose(clipped, crop), bright=late))
    assert hand.declined == {_reordering.KNOB: _ordering.OTHERWISE}
    wrong = (found[0] != plain[0]).flatten(1).any(dim=1).sum()
    assert wrong <= 1  # made before the one that was compared
    assert found[1] == plain[1]


def turned(picture):
    """Bottom up where it is bright, and then no crop may go before it."""
    return picture[::-1].copy() if picture.max() > 90.0 else picture


def test_what_hardly_ever_changes_a_sample_proves_nothing_by_the_others(turn, monkeypatch):
    monkeypatch.setattr(_ordering, "TIRED", 64)
    bright = range(FIRST, FIRST + 32, 3)
    plain = samples(Pictures(Compose(gamma, turned, crop_rows), bright=bright))
    hand = turn(EDIT)
    assert same(samples(Pictures(Compose(gamma, turned, crop_rows), bright=bright)), plain)
    assert hand.declined == {_reordering.KNOB: _ordering.SELDOM}


class Odd(Compose):
    """Does more than to apply its transforms."""

    def __call__(self, picture):
        return super().__call__(picture) + 1


def test_a_chain_that_does_more_is_left_alone(turn):
    plain = samples(Pictures(Odd(gamma, crop), items=16))
    hand = turn(EDIT)
    assert same(samples(Pictures(Odd(gamma, crop), items=16)), plain)
    assert hand.declined == {_reordering.KNOB: _ordering.MORE}


def test_a_list_that_changes_ends_it(turn):
    hand = turn(EDIT)
    chain = Compose(gamma, crop)
    samples(Pictures(chain, items=16))
    chain.transforms = [crop]
    assert len(samples(Pictures(chain, items=16))[0]) == 16
    assert hand.declined == {_reordering.KNOB: _reordering.CHANGED}


def test_what_was_found_in_one_epoch_holds_in_the_next(turn):
    data = Pictures(Compose(gamma, crop), items=FIRST)
    hand = turn(EDIT)
    samples(data)
    first = hand.applied[_reordering.KNOB]
    samples(data)
    assert hand.applied[_reordering.KNOB] - first >= FIRST - 1 - FIRST // _reordering.EVERY


def test_a_chain_of_several_things_at_once_is_left_alone(turn):
    class Pairs(Compose):
        def __call__(self, picture, label):
            return super().__call__(picture) + label

    class Labelled(Pictures):
        def __getitem__(self, index):
            return self.transform(np.zeros((SIDE, SIDE, 3), np.float32), index)

    hand = turn(EDIT)
    assert len(samples(Labelled(Pairs(gamma, crop), items=16))[0]) == 16
    assert hand.declined == {_reordering.KNOB: _reordering.SEVERAL}


def test_an_error_of_a_transform_is_the_jobs_own(turn):
    class BrokenError(Exception):
        pass

    def breaks(picture):
        if calls[0] > FIRST + 16:
            raise BrokenError
        calls[0] += 1
        return picture

    calls = [0]
    turn(EDIT)
    with pytest.raises(BrokenError):
        samples(Pictures(Compose(gamma, crop, breaks), items=4 * FIRST))


def test_a_look_tells_whether_there_is_a_chain():
    told = [
        describe(DataLoader(Pictures(chain)))["chained"]
        for chain in (Compose(gamma, crop), Compose(gamma), nn.Sequential(nn.ReLU()), gamma)
    ]
    assert told == [True, False, False, False]


def test_a_look_tells_whether_transforms_may_come_last():
    """One of them is enough: the dataset may do dear things before."""
    told = [
        describe(DataLoader(Pictures(chain)))["transforms"]
        for chain in (Compose(gamma, crop), Compose(gamma), nn.Sequential(nn.ReLU()), gamma)
    ]
    assert told == [True, True, True, False]


def test_what_does_not_let_itself_be_looked_at_is_not():
    class Proxy:
        @property
        def __class__(self):
            raise RuntimeError("not connected")

    pictures = Pictures(Compose(gamma, crop))
    pictures.transform_of_others = Proxy()
    assert describe(DataLoader(pictures))["chained"] is None


def test_with_samples_that_are_kept_there_is_no_order(turn):
    hand = turn({**EDIT, "dataset.cache": True})
    assert "kept" in hand.declined[_reordering.KNOB]
