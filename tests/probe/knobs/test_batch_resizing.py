"""Larger batches, for loaders that train, and a learning rate that goes with them."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
)
from torch.utils.data.distributed import DistributedSampler

KNOB, RATE = "loader.batch_size_times", "optimizer.scale_learning_rate"
EDIT = {KNOB: 4, RATE: True}
ROWS = TensorDataset(torch.arange(400.0).reshape(-1, 1))


def sizes(loader):
    return [len(batch[0]) for batch in loader]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_that_shuffles_gets_larger_batches_of_all_its_samples(turn, workers):
    session = turn(EDIT)
    loader = DataLoader(ROWS, 6, shuffle=True, num_workers=workers)
    assert len(loader) == 17
    rows = [batch[0] for batch in loader]
    assert [len(one) for one in rows] == [24] * 16 + [16]
    assert sorted(torch.cat(rows).flatten().tolist()) == list(range(400))
    assert session.applied == {KNOB: 1}
    assert not session.declined


def test_a_size_that_is_given_by_place_and_one_that_is_not_given(turn):
    turn(EDIT)
    assert DataLoader(ROWS, 3, True).batch_size == 12
    assert DataLoader(TensorDataset(torch.ones(50)), shuffle=True).batch_size == 4


def test_half_as_much_again(turn):
    turn({KNOB: 1.5})
    assert DataLoader(ROWS, 6, shuffle=True).batch_size == 9


@pytest.mark.parametrize(
    "sampler",
    [RandomSampler(ROWS), DistributedSampler(ROWS, 2, 0, shuffle=True)],
    ids=["random", "distributed"],
)
def test_samplers_of_random_order(turn, sampler):
    turn(EDIT)
    assert DataLoader(ROWS, 2, sampler=sampler).batch_size == 8


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"sampler": SequentialSampler(ROWS)},
        {"sampler": DistributedSampler(ROWS, 2, 0, shuffle=False)},
        {"batch_size": None},
        {"batch_size": 1, "batch_sampler": BatchSampler(RandomSampler(ROWS), 6, False)},
    ],
    ids=["in order", "sequential", "distributed", "no batches", "own batches"],
)
def test_an_order_or_batches_that_somebody_chose_are_left_alone(turn, settings):
    asked = {"batch_size": 6} | settings
    plain = [len(batch[0]) if asked["batch_size"] else 1 for batch in DataLoader(ROWS, **asked)]
    session = turn(EDIT)
    again = [len(batch[0]) if asked["batch_size"] else 1 for batch in DataLoader(ROWS, **asked)]
    assert again == plain
    assert not session.applied


def test_a_stream_is_left_alone(turn):
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(torch.ones(12))

    session = turn(EDIT)
    assert [len(batch) for batch in DataLoader(Stream(), 6)] == [6, 6]
    assert "IterableDataset" in session.declined[KNOB]


def test_only_batches_as_large_as_in_the_trial_are_multiplied(turn):
    """By the patch, or by hand, they may be as large as that already."""
    assert DataLoader(ROWS, 6 * 4, shuffle=True).batch_size == 24
    session = turn(EDIT, {KNOB: "6, 8", RATE: False})
    plain = trained(lambda params: torch.optim.SGD(params, lr=0.125), size=24)
    assert DataLoader(ROWS, 6 * 4, shuffle=True).batch_size == 24
    assert not session.applied
    assert "has batches of 24, but it was tried on batches of 6, 8 only" in session.declined[KNOB]
    assert plain[0] == -3 * 0.125
    assert session.waiting[RATE]() == "no loader was given larger batches"
    assert DataLoader(ROWS, 8, shuffle=True).batch_size == 32


def test_sizes_that_were_multiplied_are_told(turn):
    session = turn(EDIT, {KNOB: 1, RATE: False})
    for size in (6, 8, 24):
        DataLoader(TensorDataset(torch.ones(1000)), size, shuffle=True)
    (told,) = Path(session.folder).glob("*.knobs.json")
    assert json.loads(told.read_text())["multiplied"] == {KNOB: [6, 8, 24]}


@pytest.mark.parametrize(("size", "larger"), [(10, 40), (11, 11)])
def test_an_epoch_keeps_some_steps(turn, size, larger):
    session = turn(EDIT)
    assert DataLoader(ROWS, size, shuffle=True).batch_size == larger
    told = {} if larger > size else {KNOB: "an epoch of 400 samples would have 9 steps"}
    assert session.declined == told


def test_a_loader_that_is_made_of_another_one_is_as_large(turn):
    """As frameworks do, to give it a sampler of theirs."""
    turn(EDIT)
    first = DataLoader(ROWS, 6, shuffle=True)
    sampler = DistributedSampler(ROWS, 2, 0, shuffle=True)
    assert DataLoader(first.dataset, first.batch_size, sampler=sampler).batch_size == 24


class Shard(BatchSampler):
    """Every other batch, as each of two processes has it under Accelerate."""

    def __init__(self, batch_sampler):
        self.batch_sampler, self.batch_size = batch_sampler, batch_sampler.batch_size

    def __iter__(self):
        return (one for number, one in enumerate(self.batch_sampler) if number % 2)


@pytest.mark.parametrize("shard", [lambda made: made, Shard], ids=["whole", "shard"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_the_batches_of_a_loader_are_nobodys_own_in_the_next(turn, shuffle, shard):
    """As Accelerate makes each loader again, that of an evaluation as well."""
    session = turn(EDIT)
    first = DataLoader(ROWS, 6, shuffle=shuffle)
    again = DataLoader(first.dataset, batch_sampler=shard(first.batch_sampler))
    assert set(sizes(again)[:-1]) == {24 if shuffle else 6}
    assert KNOB not in session.declined
    DataLoader(ROWS, batch_sampler=[[0, 1], [2, 3]])
    assert session.declined[KNOB] == "the script has a batch sampler of its own"


def test_a_mistake_of_the_script_is_told_as_ever(turn):
    turn(EDIT)
    with pytest.raises(ValueError, match="mutually exclusive"):
        DataLoader(ROWS, 6, shuffle=True, sampler=RandomSampler(ROWS))


# -- the learning rate ----------------------------------------------------------------------


def trained(make, schedule=None, shuffle=True, steps=3, size=6):
    """Where one parameter goes, whose gradient is always 1, and the rates that the script sees."""
    weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = make([weight])
    follow = schedule(optimizer) if schedule else None
    seen = []
    for _, _ in zip(range(steps), DataLoader(ROWS, size, shuffle=shuffle), strict=False):
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()
        if follow:
            follow.step()
        seen.append(optimizer.param_groups[0]["lr"])
    return weight.item(), seen


def halved(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)


@pytest.mark.parametrize(
    ("make", "factor"),
    [
        (lambda params: torch.optim.SGD(params, lr=0.125), 4.0),
        (lambda params: torch.optim.SGD(params, lr=0.125, momentum=0.9), 4.0),
        (lambda params: torch.optim.Adam(params, lr=0.125), 2.0),
        (lambda params: torch.optim.AdamW(params, lr=0.125, weight_decay=0.0), 2.0),
        (lambda params: torch.optim.RMSprop(params, lr=0.125), 2.0),
    ],
    ids=["SGD", "momentum", "Adam", "AdamW", "RMSprop"],
)
@pytest.mark.parametrize("schedule", [None, halved])
def test_it_grows_linearly_for_sgd_and_by_the_root_for_adam(turn, make, factor, schedule):
    plain, rates = trained(make, schedule)
    session = turn(EDIT)
    far, told = trained(make, schedule)
    assert far == pytest.approx(factor * plain)
    assert told == rates
    assert session.applied[RATE] == 3


def test_it_stays_where_no_batch_is_larger(turn):
    def make(params):
        return torch.optim.SGD(params, lr=0.125)

    plain = trained(make, shuffle=False)
    session = turn(EDIT)
    assert trained(make, shuffle=False) == plain
    assert RATE not in session.applied
    session = turn({RATE: True})
    assert session.declined == {RATE: "the plan does not change the batch size"}


def test_an_optimizer_without_a_known_rule_is_left_alone(turn):
    class Own(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 0.125})

        def step(self):
            for group in self.param_groups:
                for one in group["params"]:
                    one.data -= group["lr"] * one.grad

    plain = trained(Own)
    session = turn(EDIT)
    assert trained(Own) == plain
    assert session.declined == {RATE: "no rule is known for Own"}
    assert session.applied == {KNOB: 1}


def test_a_rate_that_is_a_tensor_is_left_alone(turn):
    session = turn(EDIT)
    trained(lambda params: torch.optim.Adam(params, lr=torch.tensor(0.125), capturable=False))
    assert session.declined == {RATE: "the learning rate is a tensor"}


def test_a_step_that_fails_leaves_no_larger_rate_behind(turn):
    fails = iter([False, True, False, False])

    class Failing(torch.optim.SGD):
        def step(self, closure=None):
            if next(fails):
                raise ArithmeticError
            return super().step(closure)

    turn(EDIT)
    DataLoader(ROWS, 6, shuffle=True)
    weight = nn.Parameter(torch.zeros(1))
    optimizer = Failing([weight], lr=0.125)
    weight.grad = torch.ones(1)
    for _ in range(4):
        try:
            optimizer.step()
        except ArithmeticError:
            continue
        assert optimizer.param_groups[0]["lr"] == 0.125
    assert weight.item() == -3 * 4 * 0.125
