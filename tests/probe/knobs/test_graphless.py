"""What an evaluation without a graph computes is what it computed with one."""

import itertools
import types

import pytest
import small_jobs as jobs
import torch
from torch import nn

from whyidle.probe.knobs import _graphless
from whyidle.probe.knobs.evaluation import FAST

KNOB = "evaluation.gradients"
PADDED = torch.tensor([[False] * 4, [False, False, True, True]])


class Sequences(nn.Module):
    """PyTorch's own encoder, which has a faster way where no gradients are wanted."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.first = nn.Linear(8, 8)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        x = x[:, None].expand(-1, 4, -1) * torch.arange(1.0, 5.0)[:, None]
        x = self.encoder(self.first(x), src_key_padding_mask=PADDED[: len(x)].expand(len(x), -1))
        return self.head(x.mean(1))


def job(net, epochs=3, calls=2, data=lambda: torch.ones(2, 8)):
    """What evaluations gave, and whether with a graph."""
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
    found = []
    for _ in range(epochs):
        loss = net(torch.ones(2, 8)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        net.eval()
        found += [net(data()) for _ in range(calls)]
        net.train()
    return [one.tolist() for one in found], [one.requires_grad for one in found]


def before(make, **named):
    torch.manual_seed(1)
    return job(make(), **named)[0]


SPARED = [True] * 2 + [False] * 4


def test_attention_rounds_and_pads_as_with_a_graph(turn):
    plain = before(Sequences)
    hand = turn({KNOB: False})
    torch.manual_seed(1)
    assert job(Sequences()) == (plain, SPARED)
    assert hand.applied == {KNOB: 4}
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_frozen_attention_goes_its_faster_way_as_ever(turn):
    def make():
        net = Sequences()
        net.encoder.requires_grad_(False)
        net.first.requires_grad_(False)
        return net

    plain = before(make)
    hand = turn({KNOB: False})
    torch.manual_seed(1)
    assert job(make())[0] == plain
    assert not hand.applied
    assert hand.waiting[KNOB]() == FAST


class Asking(nn.Module):
    """Computes otherwise where nobody wants gradients."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.seen = jobs.model(), []

    def forward(self, x):
        return self.body(x) * (1 if torch.is_grad_enabled() else 1 + 1e-6)


class Failing(Asking):
    def forward(self, x):
        if not torch.is_grad_enabled():
            raise ValueError("no graph")
        return self.body(x)


@pytest.mark.parametrize(
    ("kind", "why"), [(Asking, "other numbers"), (Failing, "refuses to compute without")]
)
def test_who_asks_for_a_graph_keeps_it(turn, kind, why):
    plain = before(kind)
    hand = turn({KNOB: False})
    torch.manual_seed(1)
    assert job(kind()) == (plain, [True] * 6)
    assert why in hand.declined[KNOB]
    assert not hand.applied


def test_what_only_rounds_is_held_to_rounding(turn):
    hand = turn({"evaluation.inference_mode": True})
    job(Asking())
    assert hand.applied


class Noisy(Asking):
    def forward(self, x):
        return self.body(x) + torch.rand(1)


class Counting(Asking):
    def forward(self, x):
        self.seen.append(len(x))
        return self.body(x) * len(self.seen)


class Adding(Asking):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return self.body(x) + self.calls


class Caching(Asking):
    """What it holds is no buffer."""

    def __init__(self):
        super().__init__()
        self.total = torch.zeros(1)

    def forward(self, x):
        self.total[0] += 1
        return self.body(x) + self.total


class Compiled(Asking):
    """As code that is compiled for graphs of a device: a result lies where the last one was."""

    def __init__(self):
        super().__init__()
        self._orig_mod, self.calls = None, Calls()

    def forward(self, x):
        self.calls.count += 1
        return self.body(x) * self.calls.count


class Calls:
    count = 0


class Remembering(Asking):
    """In an object of the script's, as of keys and values."""

    def __init__(self):
        super().__init__()
        self.past = types.SimpleNamespace(keys=types.SimpleNamespace(kept=[]))

    def forward(self, x):
        self.past.keys.kept.append(x.sum().item())
        return self.body(x) * len(self.past.keys.kept)


class Given(Asking):
    """That object is its input."""

    def forward(self, x):
        if isinstance(x, torch.Tensor):
            return self.body(x)
        x.past.kept.append(1)
        return self.body(x.batch) * len(x.past.kept)


class Hooked(Asking):
    def __init__(self):
        super().__init__()
        self.body[0].register_forward_hook(lambda *_: self.seen.append(1))

    def forward(self, x):
        return self.body(x) + len(self.seen)


class Greedy(Asking):
    def forward(self, x):
        return self.body(x if self.training else x.mul_(2.0))


@pytest.mark.parametrize(
    "kind", [Noisy, Counting, Adding, Caching, Compiled, Remembering, Hooked, Greedy]
)
def test_a_second_call_leaves_no_trace(turn, faults, kind):
    held = torch.ones(2, 8)
    plain = before(kind, data=lambda: held)
    hand, held = turn({KNOB: False}), torch.ones(2, 8)
    torch.manual_seed(1)
    assert job(kind(), data=lambda: held) == (plain, SPARED)
    assert not hand.declined
    assert not faults(hand)


def test_what_is_remembered_in_an_input_is_remembered_once(turn):
    def holding():
        past = types.SimpleNamespace(kept=[])
        return lambda: types.SimpleNamespace(batch=torch.ones(2, 8), past=past)

    plain = before(Given, data=holding())
    hand = turn({KNOB: False})
    torch.manual_seed(1)
    assert job(Given(), data=holding()) == (plain, SPARED)
    assert not hand.declined


@pytest.mark.parametrize(("size", "told"), [(1e-6, False), (1e-1, True)])
def test_sums_in_any_order_are_never_twice_the_same(turn, size, told):
    class Unordered(Asking):
        drawn = itertools.count()

        def forward(self, x):
            return self.body(x) * (1 + size * (next(self.drawn) % 7))

    hand = turn({KNOB: False})
    job(Unordered())
    assert bool(hand.declined) == told


def test_a_model_that_holds_too_much_keeps_its_graph(turn, monkeypatch):
    monkeypatch.setattr(_graphless, "MOST", 50)
    hand = turn({KNOB: False})
    assert job(Asking())[1] == [True] * 6
    assert "too much" in hand.declined[KNOB]


def test_what_modules_share_is_looked_at_once(monkeypatch):
    shared = types.SimpleNamespace(many=list(range(1000)))
    net = nn.Sequential(*(nn.Identity() for _ in range(20)))
    for one in net:
        one.config = shared
    monkeypatch.setattr(_graphless, "MOST", 3000)
    assert _graphless._held(net, None) is not None
