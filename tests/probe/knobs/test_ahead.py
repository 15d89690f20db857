"""Batches of an evaluation computed together: the results are the same but for rounding."""

import random
from itertools import chain

import pytest
import small_jobs as jobs
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from whyidle.probe.knobs._structures import near, split

KNOB = "evaluation.batch_factor"
EDIT = {KNOB: 4, "evaluation.gradients": False}
torch.manual_seed(3)
ROWS = TensorDataset(torch.randn(46, 8), torch.arange(46))
EPOCHS = 6


class Counted(nn.Module):
    """Counts how many samples the body is given at a time."""

    def __init__(self, body=None):
        super().__init__()
        self.body = body or jobs.model()
        self.seen = []

    def forward(self, x):
        if not self.training:
            self.seen.append(len(x))
        return self.body(x)


def evaluate(net, loader, prepare=lambda x: x, ask=lambda net, x: net(x)):
    net.eval()
    found = []
    for x, _ in loader:
        out = ask(net, prepare(x))
        found.append(out if isinstance(out, torch.Tensor) else torch.zeros(1))
    net.train()
    return found


def job(net, loader=None, how=evaluate, **named):
    """Losses of the training, results of each evaluation's batches, and sizes that were seen."""
    loader = DataLoader(ROWS, 4) if loader is None else loader
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses, results = [], []
    for _ in range(EPOCHS):
        losses += jobs.train(net, 2, optimizer)
        results.append(how(net, loader, **named))
    return losses, results, net.seen


def same(one, other):
    """But for rounding."""
    for a, b in zip(one, other, strict=True):
        assert [len(x) for x in a] == [len(x) for x in b]
        assert all(torch.allclose(x, y, rtol=1e-4, atol=1e-6) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("persistent", [False, True])
def test_results_are_as_before_and_the_model_is_asked_less_often(turn, workers, persistent):
    if persistent and not workers:
        pytest.skip("nothing to keep")

    def loader():
        return DataLoader(ROWS, 4, num_workers=workers, persistent_workers=persistent)

    losses, results, seen = job(Counted(), loader())
    hand = turn(EDIT)
    numbers, treated, sizes = job(Counted(), loader())
    assert numbers == losses
    same(treated, results)
    assert max(seen) == 4
    assert sizes[-3:] == [16, 16, 14]  # 46 samples
    assert hand.applied[KNOB] == (EPOCHS - 2) * 12
    assert not hand.declined


class Whole(nn.Module):
    """As a module of Lightning: it is put into evaluation mode, and what it wraps is called."""

    def __init__(self):
        super().__init__()
        self.net = Counted()
        self.seen = self.net.seen

    def forward(self, x):
        return self.net(x)


def test_the_model_may_be_what_is_only_wrapped(turn):
    def job_of(whole):
        optimizer = torch.optim.SGD(whole.parameters(), lr=0.1)
        for _ in range(EPOCHS):
            jobs.train(whole.net, 2, optimizer)
            found = evaluate(whole, DataLoader(ROWS, 4), ask=lambda whole, x: whole.net(x))
        return found

    results = job_of(Whole())
    hand = turn(EDIT)
    whole = Whole()
    same([job_of(whole)], [results])
    assert whole.seen[-3:] == [16, 16, 14]
    assert not hand.declined


def test_the_first_groups_are_computed_both_ways(turn):
    turn(EDIT)
    _, _, sizes = job(Counted())
    first, second = sizes[:12], sizes[12 : 12 + 3 + 12]
    assert first == [4] * 11 + [2]
    assert sorted(second, reverse=True) == [16, 16, 14, *[4] * 11, 2]


def test_a_script_that_forgets_the_gradients_itself(turn):
    hand = turn({KNOB: 4})
    plain = torch.no_grad()(evaluate)
    _, _, sizes = job(Counted(), how=plain)
    assert sizes[-3:] == [16, 16, 14]
    assert set(hand.applied) == {KNOB}


def test_without_either_the_graph_may_be_wanted(turn):
    hand = turn({KNOB: 4})
    _, _, sizes = job(Counted())
    assert max(sizes) == 4
    assert not hand.applied


PREPARED = {
    "moved": lambda x: x.to("cpu", non_blocking=True),
    "copied": lambda x: x.clone(),
    "converted": lambda x: x.double().float(),
}


@pytest.mark.parametrize("prepare", PREPARED.values(), ids=PREPARED)
def test_inputs_are_parts_of_the_batch_by_value(turn, prepare):
    hand = turn(EDIT)
    _, _, sizes = job(Counted(), prepare=prepare)
    assert sizes[-3:] == [16, 16, 14]
    assert not hand.declined


CHANGED = {
    "scaled": lambda x: x / 255,
    "in place": lambda x: x.div_(255),
    "cut": lambda x: x[:2],
}


@pytest.mark.parametrize("prepare", CHANGED.values(), ids=CHANGED)
def test_inputs_that_the_script_makes_itself_are_computed_one_by_one(turn, prepare):
    def fresh():
        return DataLoader(TensorDataset(ROWS.tensors[0].clone(), ROWS.tensors[1]), 4)

    _, results, _ = job(Counted(), fresh(), prepare=prepare)
    hand = turn(EDIT)
    _, treated, sizes = job(Counted(), fresh(), prepare=prepare)
    same(treated, results)
    assert sizes[-1] <= 4
    assert hand.declined == {KNOB: "the model's inputs are not what its loader gives"}


class OneAhead(DataLoader):
    """Asks for a batch before it gives the one before, as accelerate's loaders."""

    def __iter__(self):
        batches = super().__iter__()
        current = next(batches)
        for following in batches:
            yield current
            current = following
        yield current


def test_a_loader_that_is_one_batch_ahead(turn):
    losses, results, _ = job(Counted(), OneAhead(ROWS, 4))
    hand = turn(EDIT)
    numbers, treated, sizes = job(Counted(), OneAhead(ROWS, 4))
    assert numbers == losses
    same(treated, results)
    assert sizes[-3:] == [16, 16, 14]
    assert hand.applied[KNOB] == (EPOCHS - 2) * 12
    assert not hand.declined


class Stateful(Counted):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += not self.training
        return super().forward(x) + self.calls


class Noisy(Counted):
    def forward(self, x):
        return super().forward(x) + (0 if self.training else torch.randn(1))


class Mean(Counted):
    """Looks at its neighbours."""

    def forward(self, x):
        return super().forward(x - x.mean(0))


class Loss(Counted):
    def forward(self, x):
        out = super().forward(x)
        return out if self.training else out.mean()


class Fixed(Counted):
    def forward(self, x):
        if len(x) > 4:
            raise ValueError("too many")
        return super().forward(x)


class Greedy(Counted):
    def forward(self, x):
        return super().forward(x if self.training else x.mul_(2.0))


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (Stateful, "changes when it is called"),
        (Noisy, "draws random numbers"),
        (Mean, "depend on what else is in the batch"),
        (Loss, "not one for each sample"),
        (Fixed, "refuses larger batches: too many"),
        (Greedy, "changes its inputs"),
    ],
)
def test_models_whose_results_would_be_others_are_left_alone(turn, faults, kind, why):
    def fresh():
        return DataLoader(TensorDataset(ROWS.tensors[0].clone(), ROWS.tensors[1]), 4)

    torch.manual_seed(1)
    random.seed(1)
    losses, results, _ = job(kind(), fresh(), how=alone if kind is Loss else evaluate)
    hand = turn(EDIT)
    torch.manual_seed(1)
    random.seed(1)
    numbers, treated, _ = job(kind(), fresh(), how=alone if kind is Loss else evaluate)
    if kind is not Stateful:  # what a buffer counts it counts once more
        assert numbers == losses
        pairs = zip(chain(*treated), chain(*results), strict=True)
        assert all(torch.equal(x, y) for x, y in pairs)
    assert why in hand.declined[KNOB]
    assert not hand.applied.get(KNOB)
    assert not faults(hand)


def alone(net, loader):
    """Results that are single numbers."""
    net.eval()
    found = [net(x).reshape(1) for x, _ in loader]
    net.train()
    return found


def test_hooks_see_every_batch(turn):
    hand = turn(EDIT)
    net = Counted()
    calls = []
    net.body[0].register_forward_hook(lambda *_: calls.append(1))
    job(net)
    assert len(calls) == EPOCHS * (12 + 2)
    assert "hooks" in hand.declined[KNOB]


@pytest.mark.parametrize(("loader", "why"), [
    (DataLoader(ROWS, 4, shuffle=True), "in another order"),
    (DataLoader(ROWS, 46), "too few batches"),
])  # fmt: skip
def test_what_took_no_hold_says_what_it_waited_for(turn, loader, why):
    hand = turn(EDIT)
    job(Counted(), loader)
    assert KNOB not in hand.applied
    assert why in hand.waiting[KNOB]()


def test_what_shuffles_is_no_evaluation(turn):
    turn(EDIT)
    _, _, sizes = job(Counted(), DataLoader(ROWS, 4, shuffle=True))
    assert max(sizes) == 4


def test_an_evaluation_that_ends_early_goes_on_where_it_would(turn):
    def some(net, loader):
        net.eval()
        found = []
        for number, (x, _) in enumerate(loader):
            if number == 5:
                break
            found.append(net(x))
        net.train()
        return found

    _, results, _ = job(Counted(), how=some)
    turn(EDIT)
    _, treated, sizes = job(Counted(), how=some)
    same(treated, results)
    assert 16 in sizes


def test_a_second_look_at_a_batch_is_computed_by_itself(turn):
    def twice(net, x):
        return net(x) + net(x.flip(1)) + net(x)

    _, results, _ = job(Counted(), ask=twice)
    hand = turn(EDIT)
    _, treated, sizes = job(Counted(), ask=twice)
    same(treated, results)
    assert 16 in sizes
    assert not hand.declined


def test_two_evaluations_side_by_side(turn):
    other = DataLoader(TensorDataset(torch.randn(46, 8), torch.arange(46)), 4)

    def both(net, loader):
        net.eval()
        found = []
        for (x, _), (y, _) in zip(loader, other, strict=True):
            found += [net(x), net(y)]
        net.train()
        return found

    _, results, _ = job(Counted(), how=both)
    turn(EDIT)
    _, treated, _ = job(Counted(), how=both)
    same(treated, results)


def test_an_iterator_that_outlives_an_evaluation_gets_no_results_of_older_weights(turn):
    """Two batches in each evaluation, of four that are drawn together."""

    def job_of(loader):
        held = []

        def few(net, loader):
            net.eval()
            if not held:
                held.append(iter(loader))
            found = []
            for _ in range(2):
                x, _ = next(held[0])
                found.append(net(x))
            net.train()
            if epochs.pop():
                held.clear()
            return found

        epochs = [False] * (EPOCHS - 2) + [True, False]
        return job(Counted(), loader, how=few)

    _, results, _ = job_of(DataLoader(ROWS, 4))
    turn(EDIT)
    _, treated, _ = job_of(DataLoader(ROWS, 4))
    same(treated, results)


@pytest.mark.parametrize("given", [(2, 2), (2, 3), (torch.ones(1), torch.ones(1))])
def test_inputs_that_are_no_part_of_the_batch_must_stay_the_same(turn, given):
    class Powers(Counted):
        def forward(self, x, power=1):
            return super().forward(x) * power

    def ask(net, x):
        turns.append(turns.pop(0))
        return net(x, power=turns[0])

    turns = list(given)
    _, results, _ = job(Powers(), ask=ask)
    turns = list(given)
    hand = turn(EDIT)
    _, treated, _ = job(Powers(), ask=ask)
    same(treated, results)
    assert hand.applied[KNOB]  # of what is only wrapped, where the whole cannot be


def test_results_are_of_the_module_that_is_asked(turn):
    """What the wrapper is given differs in the second batch, what it wraps gets the same."""

    class Doubtful(Counted):
        def forward(self, x):
            scaled = x.abs().max() > 100
            return super().forward(x / 1024 if scaled else x) + 1

    def ask(net, x):
        times.append(1024 if len(times) % 4 == 1 else 1)
        return net(x * times[-1])

    times = []
    _, results, _ = job(Doubtful(), ask=ask)
    times = []
    turn(EDIT)
    _, treated, _ = job(Doubtful(), ask=ask)
    same(treated, results)


def test_an_error_of_the_loader_comes_when_it_is_its_turn(turn):
    class Broken(TensorDataset):
        def __getitem__(self, index):
            if index == 22 and broken:
                raise OSError("a bad file")
            return super().__getitem__(index)

    broken, seen = [], []
    loader = DataLoader(Broken(*ROWS.tensors), 4)
    turn(EDIT)
    net = Counted()
    job(net, loader)
    broken.append(1)
    net.eval()
    with pytest.raises(OSError, match="a bad file"):
        seen.extend(len(x) for x, _ in loader)
    assert seen == [4] * 5


def test_results_in_structures():
    whole = {"logits": torch.arange(6.0), "all": (torch.zeros(6, 2), None)}
    part = split(whole, [4, 2], 1)
    assert part["logits"].tolist() == [4.0, 5.0]
    assert part["all"][0].shape == (2, 2)
    assert part["all"][1] is None
    assert near(part, split(whole, [4, 2], 1))


def test_near_is_half_the_digits():
    one = torch.tensor([1000.0, 0.0])
    assert near(one, one + torch.tensor([0.1, 0.1]))
    assert not near(one, one + torch.tensor([0.0, 1.0]))
    assert not near(one, torch.tensor([float("nan"), 0.0]))
    assert not near(one, one.double())
    assert not near(torch.tensor([1]), torch.tensor([2]))
    assert near(one.bfloat16(), (one + 30).bfloat16())
    assert not near({"a": one}, {"b": one})
