"""Attention that is fused where the model has a switch for it."""

import pytest
import torch
from torch import nn

FUSED = {"model.attention": "sdpa"}


@pytest.fixture
def wanted(monkeypatch):
    """Whether each call of the function behind all of it was to give weights."""
    seen = []
    original = nn.functional.multi_head_attention_forward

    def call(*args, **named):
        seen.append(named["need_weights"])
        return original(*args, **named)

    monkeypatch.setattr(nn.functional, "multi_head_attention_forward", call)
    return seen


class Thrown(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        x, _ = self.attend(x, x, x)
        return x


class First(Thrown):
    def forward(self, x):
        return self.attend(query=x, key=x, value=x)[0]


class Starred(Thrown):
    def forward(self, x):
        h = (x, x, x)
        return x + self.attend(*h)[0] - x


class Looked(Thrown):
    def forward(self, x):
        x, weights = self.attend(x, x, x)
        return x + weights.mean()


class Looking(Thrown):
    def forward(self, x):
        x, weights = self.attend(x, x, x)
        self.seen = locals()["weights"]
        return x


class Kept(Thrown):
    def forward(self, x):
        x, self.weights = self.attend(x, x, x)
        return x


class Nested(Thrown):
    def forward(self, x):
        x, weights = self.attend(x, x, x)

        def later():
            return weights.mean()

        return x + later()


class Shared(Thrown):
    def forward(self, x):
        global weights
        x, weights = self.attend(x, x, x)
        return x


class Whole(Thrown):
    def forward(self, x):
        return self.attend(x, x, x)


class Second(Thrown):
    def forward(self, x):
        return self.attend(x, x, x)[1]


class Alone(Thrown):
    """Only asks for what it uses."""

    def forward(self, x):
        x, _ = self.attend(x, x, x, need_weights=False)
        return x


def train(net, steps=3):
    """The losses."""
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        given = net(torch.randn(2, 5, 8))
        loss = (given[0] if isinstance(given, tuple) else given).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("kind", [Thrown, First, Starred])
def test_weights_that_are_thrown_away_are_not_asked_for(turn, wanted, kind):
    plain = train(kind())
    assert wanted == [True] * 3
    hand = turn(FUSED)
    assert train(kind()) == pytest.approx(plain, rel=1e-5)
    assert wanted[3:] == [False] * 3
    assert hand.applied["model.attention"] == 3
    hand.back()
    assert train(kind()) == plain
    assert wanted[6:] == [True] * 3


@pytest.mark.parametrize("kind", [Looked, Looking, Kept, Nested, Shared, Whole, Second])
def test_weights_that_somebody_may_look_at_are_given(turn, wanted, kind):
    hand = turn(FUSED)
    train(kind())
    assert wanted == [True] * 3
    assert hand.applied == {}
    assert "test_attention.py:" in hand.declined["model.attention"]


def test_what_a_hook_sees_is_given(turn, wanted):
    net, seen = Thrown(), []
    net.attend.register_forward_hook(lambda _module, _args, given: seen.append(given[1].shape))
    turn(FUSED)
    train(net)
    assert wanted == [True] * 3
    assert seen == [torch.Size((2, 5, 5))] * 3


def test_where_nothing_is_to_be_fused(turn, wanted):
    hand = turn(FUSED)
    train(Alone())
    assert wanted == [False] * 3
    assert hand.declined == {"model.attention": "its attention is written out in its own code"}


def test_while_it_is_compiled_it_is_let_be(turn):
    torch._dynamo.reset()
    net = Thrown()
    plain = net(torch.ones(1, 5, 8))
    turn(FUSED)
    found = torch.compile(net, backend="eager", fullgraph=True)(torch.ones(1, 5, 8))
    assert torch.allclose(found, plain)
    torch._dynamo.reset()


class Config:
    def __init__(self, form, weights):
        self._attn_implementation, self.output_attentions = form, weights


class Pretrained(nn.Module):
    """As models of transformers let themselves be told how to attend."""

    def __init__(self, form="eager", able=True, weights=False):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Linear(8, 8)
        self.config, self.able = Config(form, weights), able
        self.forms = []

    def set_attn_implementation(self, form):
        if self.able:
            self.config._attn_implementation = form

    def forward(self, x, output_attentions=False):
        self.forms.append(self.config._attn_implementation)
        return self.body(x)


def test_a_model_that_can_be_told_is(turn):
    hand, net = turn(FUSED), Pretrained()
    train(nn.Sequential(net))
    assert net.forms == ["sdpa"] * 3
    assert hand.applied == {"model.attention": 1}


@pytest.mark.parametrize(
    ("net", "why"),
    [
        (Pretrained(able=False), "Pretrained cannot be told"),
        (Pretrained(weights=True), "its weights are asked for"),
        (Pretrained("sdpa"), "written out in its own code"),
    ],
)
def test_one_that_cannot_be_told_is_left(turn, net, why):
    hand, was = turn(FUSED), net.config._attn_implementation
    train(net)
    assert net.forms == [was] * 3
    assert why in hand.declined["model.attention"]


def test_whoever_asks_for_weights_gets_them_from_then_on(turn):
    hand, net = turn(FUSED), Pretrained()
    train(net)
    net(torch.ones(1, 5, 8), output_attentions=True)
    net(torch.ones(1, 5, 8))
    assert net.forms == ["sdpa"] * 3 + ["eager"] * 2
    assert hand.declined == {"model.attention": "its weights are asked for"}
