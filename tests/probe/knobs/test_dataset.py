"""A cache of samples: the same numbers, and none where they are not proven to be the same."""

import gc
import random
import threading
import time
import types
import weakref

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

from whyidle.probe.knobs import _free_memory, dataset
from whyidle.probe.knobs.dataset import PROVE, find_generator

EDIT = {"dataset.cache": True}
MADE = torch.zeros(512, dtype=torch.int32).share_memory_()
"""how often each sample was made, in whatever process"""


class Slow(Dataset):
    """Samples that take a while."""

    def __init__(self, length=64, **held):
        self.length = length
        self.__dict__.update(held)
        MADE.zero_()

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        MADE[index] += 1
        time.sleep(0.0005)
        return self.made(index)

    def made(self, index):
        return {"x": torch.full((3,), float(index)), "y": index, "a": np.arange(index + 1.0)}


def run(data, epochs=3, after=lambda epoch: None, **named):
    """All numbers of some epochs, as text that tells bits."""
    made = torch.Generator().manual_seed(5)
    named = {"batch_size": 4, "shuffle": True, "generator": made, "collate_fn": str, **named}
    loader = DataLoader(data, **named)
    numbers = []
    for epoch in range(epochs):
        numbers += [str(batch) for batch in loader]
        numbers.append(str(torch.rand(1)))
        after(epoch)
    return numbers


def both(turn, make, **named):
    """Of an untreated and of a treated run: are the numbers the same; the hand; samples made."""
    torch.manual_seed(1)
    plain = run(make(), **named)
    session = turn(EDIT)
    torch.manual_seed(1)
    treated = run(make(), **named)
    return treated == plain, session, int(MADE.sum())


@pytest.mark.parametrize(
    "loading",
    [
        {},
        {"num_workers": 2},
        {"num_workers": 2, "persistent_workers": True},
        {"batch_size": None, "shuffle": False},
    ],
    ids=["none", "workers", "persistent", "single"],
)
def test_each_sample_is_made_once_and_some_again(turn, loading):
    same, session, made = both(turn, Slow, epochs=4, **loading)
    assert same
    assert not session.declined
    assert 64 + PROVE <= made < 2.2 * 64  # 256 without the knob
    session.undo_changes()


def test_samples_are_copies_that_may_be_changed(turn):
    def spoil(batch):
        told = str(batch)
        for one in batch:
            one["x"].mul_(7)
            one["a"] += 1
        return told

    same, session, _ = both(turn, Slow, collate_fn=spoil)
    assert same
    assert session.applied["dataset.cache"] > 64


class Batches(Slow):
    def __getitems__(self, indices):
        return [self[one] for one in indices]


@pytest.mark.parametrize("make", [Batches, lambda: Subset(Slow(), range(8, 40))])
def test_datasets_that_make_batches(turn, make):
    same, session, made = both(turn, make)
    assert same
    assert session.applied["dataset.cache"]
    assert made < 2.5 * 64


class Drawing(Slow):
    """Random augmentation."""

    def __init__(self, draw):
        super().__init__(draw=draw)

    def made(self, index):
        return float(self.draw()) + index


COIN = np.random.default_rng(3)


class Coin(Slow):
    """A generator that is nobody's attribute."""

    def made(self, index):
        return index * float(COIN.random() < 0.5)


DRAWS = {
    "python": random.random,
    "numpy": np.random.rand,
    "torch": lambda: torch.rand(1),
    "unused": lambda: 0 * random.random(),
}


@pytest.mark.parametrize("draw", DRAWS)
def test_random_augmentation_is_never_frozen(turn, draw):
    random.seed(3)
    np.random.seed(3)
    states = random.getstate(), np.random.get_state()

    def make():
        random.setstate(states[0])
        np.random.set_state(states[1])
        return Drawing(DRAWS[draw])

    same, session, made = both(turn, make)
    assert same
    assert made == 3 * 64
    assert session.declined == {"dataset.cache": "its samples draw random numbers"}


def test_random_numbers_of_its_own_are_noticed(turn):
    torch.manual_seed(1)
    session = turn(EDIT)
    run(Coin())
    assert session.declined == {"dataset.cache": "its samples differ when they are computed twice"}
    assert not session.applied


def test_a_generator_that_the_dataset_holds_is_reason_enough(turn):
    session = turn(EDIT)
    run(Slow(own=random.Random(1)))  # it draws from it once in a blue moon
    assert "its own random generator: dataset.own" in session.declined["dataset.cache"]
    assert not session.applied


class Epochal(Slow):
    """Something else in every epoch, by what ``told`` says."""

    def __init__(self, hidden):
        super().__init__()
        if not hidden:
            self.epoch = 0

    def made(self, index):
        return index + 100 * getattr(self, "epoch", STATE["epoch"])


STATE = {"epoch": 0}


@pytest.mark.parametrize("hidden", [False, True])
def test_what_changes_from_epoch_to_epoch(turn, hidden):
    made = []

    def make():
        STATE["epoch"] = 0
        made.append(Epochal(hidden))
        return made[-1]

    def after(epoch):
        STATE["epoch"] = epoch + 1
        if not hidden:
            made[-1].epoch = epoch + 1

    same, session, _ = both(turn, make, epochs=5, after=after)
    assert same
    assert not session.applied
    why = session.declined["dataset.cache"]
    assert ("differs from the first time" if hidden else "changes from epoch to epoch") in why


class Labelled(Slow):
    """Labels that the loop corrects, and a transform that it resizes."""

    def __init__(self, kind=list):
        super().__init__()
        self.labels = kind([0] * 64)
        self.transform = types.SimpleNamespace(transforms=[types.SimpleNamespace(size=3)])

    def made(self, index):
        size = self.transform.transforms[0].size + STATE["epoch"]
        return torch.full((size,), float(self.labels[index]))


def relabelled(data, epoch):
    data.labels[40] = epoch + 1


def resized(data, epoch):
    data.transform.transforms[0].size += 1


def resized_unseen(data, epoch):
    STATE["epoch"] = epoch + 1


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
@pytest.mark.parametrize("part", [False, True])
def test_labels_that_the_loop_corrects_are_not_stale(turn, kind, part):
    made = []

    def make():
        made.append(Labelled(kind))
        return Subset(made[-1], range(64)) if part else made[-1]

    same, session, _ = both(turn, make, epochs=5, after=lambda e: relabelled(made[-1], e))
    assert same
    assert "changes from epoch to epoch" in session.declined["dataset.cache"]


@pytest.mark.parametrize("change", [resized, resized_unseen])
@pytest.mark.parametrize("workers", [0, 2])
def test_samples_that_grow_between_epochs(turn, change, workers):
    """Kept ones and new ones in one batch could not be stacked."""
    made = []

    def make():
        STATE["epoch"] = 0
        made.append(Labelled())
        return Subset(made[-1], range(64))

    loading = {"collate_fn": torch.stack, "num_workers": workers}
    same, session, _ = both(turn, make, epochs=5, after=lambda e: change(made[-1], e), **loading)
    STATE["epoch"] = 0
    assert same
    assert workers or session.declined


def test_a_batch_that_draws_at_last_is_made_as_ever(turn):
    """Which samples of it are made first makes no difference."""

    class Late(Labelled):
        def made(self, index):
            drawn = random.random() if STATE["epoch"] > 1 else 0.0
            return torch.tensor([index + drawn])

    def make():
        STATE["epoch"] = 0
        random.seed(8)
        return Subset(Late(), range(64))

    same, session, _ = both(turn, make, epochs=4, after=lambda e: resized_unseen(None, e))
    STATE["epoch"] = 0
    assert same
    assert session.declined


def test_a_dataset_without_a_hash_is_not_kept(turn):
    same, session, _ = both(turn, lambda: Slow(lock=threading.Lock()))
    assert same
    assert not session.applied
    assert "cannot be pickled" in session.declined["dataset.cache"]


class Opening(Slow):
    """Opens what it reads when it is first asked."""

    def made(self, index):
        if not hasattr(self, "file"):
            self.file = object()
        return index


def test_what_is_opened_in_the_first_epoch_is_no_change_for_ever(turn):
    same, session, _ = both(turn, Opening, epochs=4)
    assert same
    assert session.applied["dataset.cache"]
    assert not session.declined


class Odd(Slow):
    def made(self, index):
        return object()


def test_samples_of_other_kinds_are_not_kept(turn):
    session = turn(EDIT)
    run(Odd(), collate_fn=len)
    assert session.declined == {
        "dataset.cache": "its samples hold a builtins.object, which cannot be cached"
    }


class Quick(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return index


def test_what_is_made_quickly_is_not_kept(turn, monkeypatch):
    # microseconds on both sides: a neighbour on the cores may make any one of them the slower
    monkeypatch.setattr(dataset, "LEAST", 1000.0)
    session = turn(EDIT)
    run(Quick())
    assert "is as fast as" in session.declined["dataset.cache"]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(8))


def test_a_stream_has_no_index(turn):
    session = turn(EDIT)
    assert list(DataLoader(Stream(), batch_size=None)) == list(range(8))
    assert session.declined == {"dataset.cache": "samples of an IterableDataset have no index"}


def test_memory_is_bounded(turn, monkeypatch):
    monkeypatch.setattr(_free_memory, "free_bytes", lambda: 2 * 8000)
    same, session, made = both(turn, Slow)
    assert same
    assert not session.declined
    assert 64 + PROVE < made < 3 * 64  # a part is kept


class Failing(Slow):
    def made(self, index):
        if index == 9:
            raise KeyError("sample 9")
        return index


def test_a_sample_that_fails_fails_as_ever(turn):
    turn(EDIT)
    loader = DataLoader(Failing(), batch_size=4)
    with pytest.raises(KeyError, match="sample 9"):
        list(loader)


FAULTS = [
    "read_states",
    "are_same",
    "encode_sample",
    "decode_sample",
    "hash_contents",
    "Room",
    "disturb_states",
]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_it_is_not_the_jobs(turn, monkeypatch, name):
    def broken(*_):
        raise ZeroDivisionError("a planted fault")

    torch.manual_seed(1)
    plain = run(Slow())
    monkeypatch.setattr(dataset, name, broken)
    session = turn(EDIT)
    torch.manual_seed(1)
    assert run(Slow()) == plain
    assert "planted" in session.declined["dataset.cache"]
    assert not session.applied


def test_indices_of_other_kinds_pass(turn):
    class Named(Slow):
        def __getitem__(self, index):
            return len(index)

    session = turn(EDIT)
    loader = DataLoader(Named(), batch_size=None, sampler=["ab", "b"])
    assert list(loader) == [2, 1]
    assert not session.declined


def test_a_dataset_that_the_script_lets_go_goes(turn):
    turn(EDIT)
    gone = []
    for _ in range(3):
        data = Slow()
        run(data, epochs=1)
        gone.append(weakref.ref(data))
        del data
    gc.collect()
    assert [one() for one in gone] == [None] * 3


def test_a_plain_list_has_its_samples_itself(turn):
    session = turn(EDIT)
    assert len(run(list(range(64)))) == 3 * 17
    assert not session.applied
    assert not session.declined


class Augmenting:
    """A transform with a generator of its own, as in a list of them."""

    def __init__(self, generator):
        self.generator = generator


class Transformed:
    def __init__(self, generator):
        self.transform = types.SimpleNamespace(transforms=[len, Augmenting(generator)])


@pytest.mark.parametrize(
    "generator", [random.Random(1), np.random.default_rng(1), torch.Generator()]
)
def test_a_generator_of_the_datasets_own_is_found_wherever_it_is_held(generator):
    told = find_generator(Transformed(generator))
    assert told.startswith("dataset.transform.transforms[1].generator")


def test_a_dataset_without_one_has_none():
    assert find_generator(Transformed([1, "two", {"three": torch.ones(3)}])) == ""
    circle = types.SimpleNamespace()
    circle.self = circle
    assert find_generator(circle) == ""
