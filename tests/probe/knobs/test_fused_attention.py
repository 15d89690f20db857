"""Attention that is fused where the model has a switch for it."""

import pytest
import torch
from torch import nn

FUSED = {"model.attention": "sdpa"}


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


class Plain(nn.Module):
    """Its attention has no switch."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.attend(x, x, x)


def test_attention_without_a_switch_is_left_as_it_is(turn):
    plain = train(Plain())
    session = turn(FUSED)
    assert train(Plain()) == plain
    assert session.declined == {
        "model.attention": "the model's attention is eager code of its own, without a switch"
    }


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
    session, net = turn(FUSED), Pretrained()
    train(nn.Sequential(net))
    assert net.forms == ["sdpa"] * 3
    assert session.applied == {"model.attention": 1}


@pytest.mark.parametrize(
    ("net", "why"),
    [
        (Pretrained(able=False), "Pretrained has no other"),
        (Pretrained(weights=True), "the model returns attention weights"),
        (Pretrained("sdpa"), "eager code of its own"),
    ],
)
def test_one_that_cannot_be_told_is_left(turn, net, why):
    session, was = turn(FUSED), net.config._attn_implementation
    train(net)
    assert net.forms == [was] * 3
    assert why in session.declined["model.attention"]


def test_whoever_asks_for_weights_gets_them_from_then_on(turn):
    session, net = turn(FUSED), Pretrained()
    train(net)
    net(torch.ones(1, 5, 8), output_attentions=True)
    net(torch.ones(1, 5, 8))
    assert net.forms == ["sdpa"] * 3 + ["eager"] * 2
    assert session.declined == {"model.attention": "the model returns attention weights"}
