"""Workers that are kept between epochs: they load what new ones would."""

import copy
import functools
import multiprocessing
import pickle
import threading
import types

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset, random_split

from whyidle.probe.knobs import _dataset_hash, loader

KNOB = "loader.persistent_workers"
EDIT = {KNOB: True}


class Pairs(Dataset):
    """Each sample tells what it was made with, and in which process."""

    def __init__(self):
        self.epoch, self.negatives = 1, [0] * 8
        self.transform = types.SimpleNamespace(transforms=[types.SimpleNamespace(size=1)])
        self.more = torch.zeros(8)

    def __len__(self):
        return 8

    def __getitem__(self, index):
        size = self.transform.transforms[0].size
        told = [index, self.epoch, self.negatives[index], size, float(self.more[index])]
        return torch.tensor([*told, torch.initial_seed() % 2**31], dtype=torch.float64)


def told_epoch(data, epoch):
    data.epoch = epoch


def drawn_anew(data, epoch):
    data.negatives[3] = epoch


def another_list(data, epoch):
    data.negatives = [epoch] * 8


def resized(data, epoch):
    data.transform.transforms[0].size = epoch


def exchanged(data, epoch):
    data.transform = types.SimpleNamespace(transforms=[types.SimpleNamespace(size=epoch)])


def corrected(data, epoch):
    data.more[5] = epoch


CHANGES = [told_epoch, drawn_anew, another_list, resized, exchanged, corrected]


def epochs(data, change=lambda data, epoch: None, count=6, make=DataLoader, **named):
    """What each epoch brought, without its workers' seeds, and the random number after it; which
    seeds there were."""
    torch.manual_seed(4)
    inner = data.dataset if isinstance(data, Subset) else data
    named = {"num_workers": 2, "shuffle": True, "batch_size": 2, **named}
    loader = make(data, **named)
    brought, seeds = [], []
    for epoch in range(count):
        change(inner, epoch)
        samples = torch.cat(list(loader))
        brought.append((samples[:, :-1].tolist(), torch.rand(1).item()))
        seeds.append(frozenset(samples[:, -1].tolist()))
    return brought, seeds


@pytest.mark.parametrize("make", [Pairs, lambda: random_split(Pairs(), [6, 2])[0]])
def test_workers_are_kept_as_long_as_nothing_changes(turn, make):
    plain, new = epochs(make(), count=3)
    session = turn(EDIT)
    brought, seeds = epochs(make(), count=3)
    assert brought == plain
    assert len(set(new)) == 3
    assert len(set(seeds)) == 1
    assert session.applied == {KNOB: 1}
    assert not session.declined


@pytest.mark.parametrize(
    ("change", "make"),
    [
        *((change, Pairs) for change in CHANGES),
        (told_epoch, lambda: random_split(Pairs(), [6, 2])[0]),
    ],
)
def test_what_the_loop_changes_is_loaded(turn, change, make):
    plain, _ = epochs(make(), change, count=3)
    session = turn(EDIT)
    brought, _ = epochs(make(), change, count=3)
    assert brought == plain
    assert session.declined == {KNOB: loader.CHANGED}
    assert not session.applied


def test_one_change_withdraws_it(turn):
    def once(data, epoch):
        data.epoch = epoch >= 2

    plain, _ = epochs(Pairs(), once)
    session = turn(EDIT)
    assert epochs(Pairs(), once)[0] == plain
    DataLoader(Pairs(), num_workers=1)
    assert not session.applied  # written into the script, it would have been wrong
    assert session.declined == {KNOB: loader.CHANGED}


def collated(factor, samples):
    return torch.stack(samples) * torch.tensor([factor[0], 1.0, 1, 1, 1, 1])


def test_what_batches_are_made_with_may_change_as_well(turn):
    def run():
        factor = [1.0]

        def change(data, epoch):
            factor[0] = float(epoch)

        return epochs(Pairs(), change, collate_fn=functools.partial(collated, factor))[0]

    plain = run()
    session = turn(EDIT)
    assert run() == plain
    assert session.declined == {KNOB: loader.CHANGED}


def test_workers_that_the_script_keeps_itself_are_its_own(turn):
    kept = {"persistent_workers": True}
    plain, _ = epochs(Pairs(), told_epoch, **kept)
    session = turn(EDIT)
    assert epochs(Pairs(), told_epoch, **kept)[0] == plain
    assert not session.declined


def anew(data, **named):
    """As frameworks do, which make a loader of another one's settings."""
    first = DataLoader(data, **named)
    return DataLoader(data, **named | {"persistent_workers": first.persistent_workers})


def test_a_loader_that_a_framework_makes_anew(turn):
    plain, _ = epochs(Pairs(), told_epoch, make=anew)
    session = turn(EDIT)
    assert epochs(Pairs(), told_epoch, make=anew)[0] == plain
    assert session.declined


def test_workers_that_are_given_up_end(turn):
    turn(EDIT)
    epochs(Pairs(), told_epoch)
    assert not multiprocessing.active_children()


def test_a_fault_in_it_keeps_no_workers(turn, faults, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("a planted fault")

    monkeypatch.setattr(loader, "hash_contents", broken)
    plain, _ = epochs(Pairs(), told_epoch)
    session = turn(EDIT)
    assert epochs(Pairs(), told_epoch)[0] == plain
    assert "planted" in session.declined[KNOB]
    assert len(faults(session)) == 1


def test_a_loader_whose_workers_are_kept_is_still_pickled_and_copied(turn):
    turn(EDIT)
    data = Pairs()
    loader = DataLoader(data, num_workers=1)
    list(loader)
    loader._iterator = None  # which PyTorch itself pickles for nobody
    assert list(pickle.loads(pickle.dumps(loader)))
    assert copy.copy(loader).dataset is data


class Filling(Pairs):
    """Its workers write into memory that they share, as in caches of images."""

    def __init__(self):
        super().__init__()
        self.filled = torch.zeros(8).share_memory_()

    def __getitem__(self, index):
        self.filled[index] = 1
        return super().__getitem__(index)


def test_memory_that_workers_fill_is_no_change_of_the_loops(turn):
    session = turn(EDIT)
    _, seeds = epochs(Filling(), count=4)
    assert len(set(seeds)) == 1
    assert not session.declined


class Locked(Pairs):
    """Cannot be pickled."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


@pytest.mark.parametrize(
    ("make", "why"), [(Locked, "cannot be pickled"), (Pairs, "larger than 0 MiB")]
)
def test_without_a_hash_workers_are_not_kept(turn, faults, monkeypatch, make, why):
    if make is Pairs:
        monkeypatch.setattr(_dataset_hash, "LARGEST_BYTES", 16)
    plain, _ = epochs(make(), told_epoch, count=3)
    session = turn(EDIT)
    brought, seeds = epochs(make(), told_epoch, count=3)
    assert brought == plain
    assert len(set(seeds)) == 3
    assert why in session.declined[KNOB]
    assert not session.applied
    assert not faults(session)


class Compared(DataLoader):
    """Nothing can be remembered by it."""

    __hash__ = None

    def __eq__(self, other):
        return self is other


def test_a_loader_without_a_hash(turn, faults):
    plain, _ = epochs(Pairs(), told_epoch, make=Compared)
    session = turn(EDIT)
    assert epochs(Pairs(), told_epoch, make=Compared)[0] == plain
    assert session.declined
    assert not faults(session)
