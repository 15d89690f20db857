"""What comes before random transforms is kept; the random numbers are drawn as ever."""

import gc
import random
import time
import weakref
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

from whyidle.probe.knobs import _cutting, _memory, _prefix, _whole
from whyidle.probe.knobs._chains import found
from whyidle.probe.knobs._codec import encode

Image = pytest.importorskip("PIL.Image", reason="pillow is not installed")

EDIT = {"dataset.cache": True}
MADE = torch.zeros(64, dtype=torch.int32).share_memory_()
"""how often each sample was read, in whatever process"""
HALVED = torch.zeros(1, dtype=torch.int32).share_memory_()
"""how often the transform that is the same every time was applied"""
NOW = {"fails": False}
COIN = np.random.default_rng(3)


class Compose:
    """Of the shape of torchvision's."""

    def __init__(self, *transforms):
        self.transforms = list(transforms)

    def __call__(self, image):
        for transform in self.transforms:
            image = transform(image)
        return image


def wait(seconds=0.0005):
    time.sleep(seconds)


class Halve:
    def __init__(self, size=8):
        self.size = size

    def __call__(self, image):
        HALVED[0] += 1
        wait()
        return image.resize((self.size, self.size))


def flip(image):
    return image.transpose(0) if random.random() < 0.5 else image


def crop(image):
    left, top = torch.randint(3, (2,)).tolist()
    return image.crop((left, top, left + 6, top + 6))


def array(image):
    return np.asarray(image, dtype=np.float32) / 255


def noisy(values):
    values += np.random.rand(*values.shape).astype(np.float32)  # in place
    return values


def chain(*more):
    return Compose(Halve(), flip, crop, array, noisy, torch.from_numpy, *more)


class Photos(Dataset):
    def __init__(self, transform=None, length=64):
        self.transform = transform or chain()
        self.length = length
        MADE.zero_()
        HALVED.zero_()

    def __len__(self):
        return self.length

    def read(self, index):
        MADE[index] += 1
        wait()
        return Image.frombytes("RGB", (16, 16), bytes((3 * index + i) % 256 for i in range(768)))

    def __getitem__(self, index):
        return self.transform(self.read(index)), index % 4


def told(batch):
    """Samples as bytes."""
    return [encode(one) for one in batch]


def seed():
    torch.manual_seed(1)
    random.seed(2)
    np.random.seed(3)


def drawn():
    """What each generator draws next."""
    return random.random(), float(np.random.rand()), float(torch.rand(1))


def run(make, epochs=4, after=lambda data, epoch: None, **named):
    """All samples of some epochs, and where the generators are after each."""
    seed()
    data = make()
    named = {"batch_size": 4, "shuffle": True, "collate_fn": told, **named}
    loader = DataLoader(data, **named)
    numbers = []
    for epoch in range(epochs):
        numbers.append((list(loader), drawn()))
        after(data, epoch)
    return numbers


def both(turn, make, **named):
    """Is a treated run the same as an untreated one; the hand; how often samples were read."""
    plain = run(make, **named)
    hand = turn(EDIT)
    treated = run(make, **named)
    return treated == plain, hand, int(MADE.sum())


def losses(workers, persistent):
    """Of a small training."""
    seed()
    model = nn.Linear(108, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    named = {"num_workers": workers, "persistent_workers": persistent}
    loader = DataLoader(Photos(), batch_size=4, shuffle=True, **named)
    found = []
    for _ in range(4):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images.flatten(1)), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
    return found, drawn(), int(HALVED)


@pytest.mark.parametrize(
    ("workers", "persistent"),
    [(0, False), (2, False), (2, True)],
    ids=["none", "workers", "persistent"],
)
def test_a_training_loses_no_bit_and_most_of_the_work(turn, workers, persistent):
    plain, after, work = losses(workers, persistent)
    assert work == 4 * 64
    hand = turn(EDIT)
    treated = losses(workers, persistent)
    assert treated[:2] == (plain, after)
    assert not hand.declined
    assert treated[2] < 3.2 * 64  # proving took three times as long, once
    hand.back()


def test_augmentation_is_never_frozen(turn):
    same, hand, made = both(turn, Photos, shuffle=False)
    assert same
    assert hand.applied["dataset.cache"] > 2 * 64
    assert not hand.declined
    assert made < 2.6 * 64
    seed()
    loader = DataLoader(Photos(), batch_size=64, collate_fn=told)
    epochs = [next(iter(loader)) for _ in range(4)]
    for one, other in pairwise(epochs):
        assert sum(a == b for a, b in zip(one, other, strict=True)) == 0


class Both(Compose):
    """Image and target go through it together."""

    def __call__(self, image, target):
        for transform in self.transforms:
            image, target = transform(image, target)
        return image, target


def halve_both(image, target):
    return Halve()(image), target.clone()


def flip_both(image, target):
    return (image.transpose(0), -target) if random.random() < 0.5 else (image, target)


class Boxes(Photos):
    def __getitem__(self, index):
        image, target = self.transform(self.read(index), torch.tensor([index]))
        return {"image": image, "target": target, "name": f"{index}.jpg"}


class Views(Photos):
    """Two of each, as contrastive learning wants them."""

    def __getitem__(self, index):
        image = self.read(index)
        return [self.transform(image), self.transform(image)], index


class Sole(Photos):
    def __getitem__(self, index):
        return self.transform(self.read(index))


class Listed(Photos):
    """What it returns stays its own, and is another one in every epoch."""

    def __init__(self):
        super().__init__()
        self.items = [{"number": number} for number in range(64)]

    def __getitem__(self, index):
        self.items[index]["image"] = self.transform(self.read(index))
        return self.items[index]


class Slow(nn.Module):
    def forward(self, values):
        wait()
        return values.float() / 255


class Noise(nn.Module):
    def forward(self, values):
        return values.add_(torch.rand_like(values))


class Tensors(Photos):
    def read(self, index):
        return torch.frombuffer(bytearray(super().read(index).tobytes()), dtype=torch.uint8)


def at_times(image):
    """Draws random numbers for some images only."""
    return flip(image) if image.getpixel((0, 0))[0] % 2 else image


class TwoChains(Photos):
    def __init__(self):
        super().__init__()
        self.target_transform = Compose(torch.tensor, lambda one: one + torch.rand(1))

    def __getitem__(self, index):
        return self.transform(self.read(index)), self.target_transform([index])


SHAPES = {
    "several": lambda: Boxes(Both(halve_both, flip_both)),
    "views": Views,
    "sole": Sole,
    "sequential": lambda: Tensors(nn.Sequential(Slow(), Noise())),
    "at times": lambda: Photos(Compose(Halve(), at_times, array)),
    "at once": lambda: Photos(Compose(flip, Halve(), array)),
    "nested": lambda: Photos(Compose(Compose(Halve(), flip), array)),
    "two chains": TwoChains,
    "subset": lambda: Subset(Subset(Photos(), range(60)), range(50)),
    "joined": lambda: ConcatDataset([Photos(length=30), Photos(Compose(Halve(), array), 34)]),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_of_datasets_and_chains(turn, name):
    same, hand, made = both(turn, SHAPES[name])
    assert same
    assert not hand.declined
    assert hand.applied["dataset.cache"] > 60
    assert made < 3.2 * 64


def test_samples_are_copies_that_may_be_changed(turn):
    def spoil(batch):
        found = told(batch)
        for image, _ in batch:
            image.zero_()
        return found

    same, hand, _ = both(turn, Photos, collate_fn=spoil)
    assert same
    assert hand.applied["dataset.cache"] > 64


class Earlier(Photos):
    def read(self, index):
        random.random()
        return super().read(index)


class Later(Photos):
    def __getitem__(self, index):
        return self.transform(self.read(index)), random.random()


class Aside(Photos):
    def __getitem__(self, index):
        self.read(index)
        return random.random()


class Doubling(Photos):
    def __getitem__(self, index):
        return self.transform(self.read(index)) * 2


class Stubborn(Photos):
    """Tries again and again, whatever goes wrong."""

    def __getitem__(self, index):
        while True:
            try:
                return self.transform(self.read(index)) * 2
            except TypeError:  # noqa: PERF203
                continue


class Choosy(Photos):
    def __getitem__(self, index):
        made = self.transform(self.read(index))
        return made if isinstance(made, torch.Tensor) else None


class Named(Compose):
    def __call__(self, image=None):
        return super().__call__(image)


class ByName(Photos):
    def __getitem__(self, index):
        return self.transform(image=self.read(index))


class Sometimes(Compose):
    """Of the shape of torchvision's RandomApply."""

    def __call__(self, image):
        return super().__call__(image) if random.random() < 0.5 else image.copy()


class Thing:
    def __init__(self, image):
        self.image = image


class Telling(Photos):
    """A transform knows which sample is made."""

    def __init__(self):
        super().__init__(Compose(Halve(), flip, array, self.shifted))

    def __getitem__(self, index):
        self.now = index
        return super().__getitem__(index)

    def shifted(self, values):
        return values + np.float32(self.now)


class AtOnce(Photos):
    def __getitems__(self, indices):
        return [self[one] for one in sorted(indices)]


class Light(Photos):
    def read(self, index):
        return Image.new("RGB", (8, 8))


def heavy(image):
    wait(0.001)
    return flip(image)


DECLINES = {
    "before": (Earlier, _cutting.BEFORE),
    "after": (Later, _cutting.AFTER),
    "outside": (Aside, _cutting.OUTSIDE),
    "worked on": (Doubling, _prefix.WORKED_ON),
    "stubborn": (Stubborn, _cutting.TOO_OFTEN),
    "choosy": (Choosy, _cutting.ELSEWHERE),
    "by name": (lambda: ByName(Named(Halve(), flip, array)), _cutting.BY_NAME),
    "sometimes": (lambda: Photos(Sometimes(Halve())), _prefix.MORE),
    "number": (lambda: Photos(chain(lambda made: float(made.sum()))), _cutting.PLAINLY),
    "telling": (Telling, _prefix.NOT_THE_SAME),
    "at once": (AtOnce, "its samples draw random numbers"),
    "written to": (Listed, "the dataset changes from epoch to epoch: items"),
    "no gain": (lambda: Light(Compose(heavy, array)), _prefix.NO_GAIN),
    "unknown": (
        lambda: Photos(Compose(Thing, lambda thing: flip(thing.image), array)),
        f"its samples hold a {Thing.__module__}.Thing, which is not kept",
    ),
}


@pytest.mark.parametrize("name", DECLINES)
def test_what_cannot_be_cut_is_left_as_it_is(turn, name):
    make, why = DECLINES[name]
    same, hand, _ = both(turn, make)
    assert same
    assert hand.declined == {"dataset.cache": why}
    assert not hand.applied


def coin(image):
    return Image.new("RGB", image.size, tuple(COIN.integers(256, size=3).tolist()))


@pytest.mark.parametrize(
    ("transforms", "why"),
    [((coin, flip), _prefix.OTHERWISE), ((flip, coin), _prefix.NOT_THE_SAME)],
    ids=["before", "behind"],
)
def test_random_numbers_of_their_own_are_noticed(turn, transforms, why):
    hand = turn(EDIT)
    run(lambda: Photos(Compose(*transforms, array)))
    assert hand.declined == {"dataset.cache": why}
    assert not hand.applied


def longer(data, epoch):
    if epoch == 1:
        data.transform.transforms.insert(1, lambda image: image.rotate(90))


def larger(data, epoch):
    if epoch == 1:
        data.transform.transforms[0].size = 10


def another(data, epoch):
    if epoch == 1:
        data.transform = Compose(Halve(10), flip, crop, array)


@pytest.mark.parametrize(
    "change",
    [longer, larger, another],
    ids=["list", "attribute", "chain"],
)
def test_transforms_that_change_between_epochs(turn, change):
    same, hand, _ = both(turn, Photos, epochs=5, after=change)
    assert same
    assert hand.applied["dataset.cache"]
    assert not hand.declined


@pytest.mark.parametrize(
    ("change", "why"),
    [(longer, _prefix.OTHER), (larger, "came out otherwise than before")],
    ids=["list", "attribute"],
)
def test_transforms_that_change_where_nobody_sees_it(turn, monkeypatch, change, why):
    monkeypatch.setattr(_whole, "fingerprint", lambda _: {})
    same, hand, _ = both(turn, Photos, epochs=5, after=change)
    assert same
    assert hand.applied["dataset.cache"]
    assert why in hand.declined["dataset.cache"]


def test_memory_is_bounded(turn, monkeypatch):
    monkeypatch.setattr(_memory, "free_bytes", lambda: 2 * 8000)
    same, hand, _ = both(turn, Photos)
    assert same
    assert not hand.declined
    assert 0 < hand.applied["dataset.cache"] < 128  # a part is kept


def unlucky(image):
    if NOW["fails"] and random.random() < 0.1:
        raise ValueError("unlucky")
    return image


def attempt(loader):
    try:
        return next(loader)
    except ValueError as error:
        return str(error)


def test_a_transform_that_fails_fails_as_ever(turn):
    def samples():
        NOW["fails"] = False
        seed()
        data = Photos(Compose(Halve(), flip, unlucky, array))
        for epoch in range(4):
            NOW["fails"] = epoch == 3
            loader = iter(DataLoader(data, batch_size=None, collate_fn=encode))
            yield from (attempt(loader) for _ in range(64))

    plain = list(samples())
    assert plain.count("unlucky") > 1
    hand = turn(EDIT)
    assert list(samples()) == plain
    assert hand.applied
    assert not hand.declined


class Failing(Photos):
    def read(self, index):
        if index == 9:
            raise KeyError("sample 9")
        return super().read(index)


def test_a_sample_that_fails_fails_as_ever(turn):
    turn(EDIT)
    with pytest.raises(KeyError, match="sample 9"):
        run(Failing, shuffle=False)


PREFIX = ["states", "same", "encode", "disturb", "shortened", "Watch", "Chains"]
CUTTING = ["states", "same", "encode", "Snapshot", "parts_of"]
FAULTS = [(_prefix, name) for name in PREFIX] + [(_cutting, name) for name in CUTTING]


def broken(*_):
    raise ZeroDivisionError("a planted fault")


@pytest.mark.parametrize(
    ("module", "name"), FAULTS, ids=lambda one: getattr(one, "__name__", one).rpartition(".")[2]
)
def test_a_fault_in_it_is_not_the_jobs(turn, monkeypatch, module, name):
    plain = run(Photos, epochs=2)
    monkeypatch.setattr(module, name, broken)
    hand = turn(EDIT)
    assert run(Photos, epochs=2) == plain
    assert "planted" in hand.declined["dataset.cache"]
    assert not hand.applied


@pytest.mark.parametrize("name", ["shortened", "cuts_of", "states", "Watch"])
def test_a_fault_later_is_not_the_jobs_either(turn, monkeypatch, name):
    plain = run(Photos)
    hand = turn(EDIT)

    def after(data, epoch):
        if epoch == 1:
            monkeypatch.setattr(_prefix, name, broken)

    assert run(Photos, after=after) == plain
    assert "planted" in hand.declined["dataset.cache"]
    assert hand.applied


def test_nothing_stays_at_the_chains(turn):
    call = Compose.__call__
    hand = turn(EDIT)
    data = Tensors(nn.Sequential(Slow(), Noise()))
    run(lambda: data, epochs=2)
    assert "forward" not in vars(data.transform)
    run(Photos, epochs=1)
    assert Compose.__call__ is not call
    hand.back()
    assert Compose.__call__ is call


def test_a_dataset_that_the_script_lets_go_goes(turn):
    turn(EDIT)
    gone = []
    for _ in range(2):
        data = Telling()  # one of its transforms is a method of its own
        run(lambda held=data: held, epochs=1)
        gone.append(weakref.ref(data))
        del data
    gc.collect()
    assert [one() for one in gone] == [None] * 2


def test_chains_are_found_where_datasets_hold_them():
    photos = Photos()
    assert found(photos) == [photos.transform]
    assert found(Subset(Subset(photos, [1]), [0])) == [photos.transform]
    assert found(ConcatDataset([photos, photos])) == [photos.transform]
    assert not found(Photos(flip))
    assert not found([photos])
    circle = Photos(flip)
    circle.dataset = circle
    assert not found(circle)
