"""Attention that a script writes out, and one kernel does."""

import ast
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 as scripts do
from torch import nn
from torch.nn.functional import softmax

from whyidle.probe.knobs import _reads, _written_out
from whyidle.probe.knobs._attending import Attending, Scores

FUSED = {"model.attention": "sdpa"}
KNOB = "model.attention"


class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.heads, self.width = 2, 16
        self.qkv = nn.Linear(self.width, 3 * self.width)
        self.out = nn.Linear(self.width, self.width)
        self.scale = 1 / math.sqrt(self.width / self.heads)
        self.drop = nn.Dropout(0.0)
        self.last = nn.Softmax(dim=-1)
        self.register_buffer("ahead", torch.ones(32, 32, dtype=torch.bool).triu(1))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        return self.out(self.attend(q, k, v).transpose(1, 2).reshape(b, t, c))


class Plain(Attend):
    def attend(self, q, k, v):
        return (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1) @ v


class Causal(Attend):
    def attend(self, q, k, v):
        t = q.shape[-2]
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.ahead[:t, :t], float("-inf"))
        att = F.softmax(att, dim=-1)
        att = self.drop(att)
        return att @ v


class Optional(Attend):
    def attend(self, q, k, v, mask=None):
        scores = torch.matmul(q, k.transpose(2, 3)) * self.scale
        mask = torch.arange(q.shape[-2]) > 5
        if mask is not None:
            scores = scores.masked_fill(mask, -1e9)
        weights = self.last(scores)
        return torch.matmul(weights, v)


class Added(Attend):
    def attend(self, q, k, v):
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(8)
        scores = scores + torch.linspace(-1, 1, q.shape[-2])
        scores = softmax(scores.float(), dim=-1).type_as(q)
        return torch.matmul(scores, v)


class InPlace(Attend):
    def attend(self, q, k, v):
        scores = q.matmul(k.mT)
        scores *= self.scale
        scores += torch.zeros(q.shape[-2])
        return torch.softmax(scores, -1).matmul(v)


class Flat(Attend):
    """Without heads."""

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        x = torch.bmm(q, k.transpose(1, 2)) / 4.0
        x = x.masked_fill(self.ahead[: q.shape[1], : q.shape[1]], -math.inf)
        return self.out(torch.bmm(F.softmax(x, -1), v))


FUSES = (Plain, Causal, Optional, Added, InPlace, Flat)


class Dropped(Causal):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)


class Learned(Attend):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.3))

    def attend(self, q, k, v):
        return (q @ k.transpose(-2, -1) * self.scale).softmax(-1) @ v


class Wild(Attend):
    """What is done with the weights is its own."""

    def sharpen(self, weights):
        return weights**2

    def attend(self, q, k, v):
        weights = (q @ k.mT).softmax(-1)
        return self.sharpen(weights) @ v


class Sideways(Attend):
    def attend(self, q, k, v):
        return (q @ k.mT).softmax(-2) @ v


class Filled(Attend):
    """What is filled in is a weight as any other."""

    def attend(self, q, k, v):
        scores = (q @ k.mT).masked_fill(self.ahead[: q.shape[-2], : q.shape[-2]], 0.0)
        return scores.softmax(-1) @ v


class Looked(Attend):
    def attend(self, q, k, v):
        weights = (q @ k.mT).softmax(-1)
        self.seen = weights
        return weights @ v


class Given(Attend):
    def attend(self, q, k, v):
        weights = (q @ k.mT).softmax(-1)
        return weights @ v + weights.mean()


KINDS = "no kernel scales, masks or casts the weights as it does"
LEFT = {
    Dropped: "with dropout it is written out",
    Learned: KINDS,
    Wild: "what it does with the weights is its own",
    Sideways: KINDS,
    Filled: KINDS,
    Looked: "test_written_out.py: line",
    Given: "test_written_out.py: line",
}


def train(net, steps=3):
    """The losses."""
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        loss = net(torch.randn(2, 9, 16)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.fixture
def kernels(monkeypatch):
    """How often one kernel was asked for, and whether it knew that none looks ahead."""
    seen = []
    original = F.scaled_dot_product_attention

    def call(*args, **named):
        seen.append(named["is_causal"])
        return original(*args, **named)

    monkeypatch.setattr(F, "scaled_dot_product_attention", call)
    return seen


@pytest.mark.parametrize("kind", FUSES)
def test_one_kernel_gives_the_same_but_for_rounding(turn, kernels, kind):
    plain, codes = train(kind()), [vars(kind)[name].__code__ for name in methods(kind)]
    hand = turn(FUSED)
    assert train(kind()) == pytest.approx(plain, rel=1e-4)
    assert kernels == [kind in (Causal, Flat)] * 3
    assert hand.applied == {KNOB: 3}
    assert not hand.declined
    hand.back()
    assert [vars(kind)[name].__code__ for name in methods(kind)] == codes
    assert _written_out.ATTENDING not in globals()
    assert train(kind()) == plain
    assert len(kernels) == 3


def methods(kind):
    return [name for name in ("attend", "forward") if name in vars(kind)]


@pytest.mark.parametrize("kind", LEFT)
def test_what_no_kernel_does_is_done_as_it_was(turn, kernels, kind):
    plain = train(kind())
    hand = turn(FUSED)
    assert train(kind()) == plain
    assert kernels == []
    assert not hand.applied
    assert LEFT[kind] in hand.declined[KNOB]


def test_an_evaluation_is_as_it_was(turn, kernels):
    net = Causal()
    turn(FUSED)
    train(net)
    with torch.no_grad():
        net(torch.randn(2, 9, 16))
    assert len(kernels) == 3


def test_a_kernel_that_fails_is_asked_once(turn, monkeypatch):
    plain, asked = train(Causal()), []

    def fails(*_args, **_named):
        asked.append(1)
        raise RuntimeError("no kernel for this")

    monkeypatch.setattr(F, "scaled_dot_product_attention", fails)
    hand = turn(FUSED)
    assert train(Causal()) == plain
    assert asked == [1]
    assert hand.declined == {KNOB: "RuntimeError: no kernel for this"}


def test_deterministic_jobs_keep_theirs(turn, kernels):
    hand = turn(FUSED)
    torch.use_deterministic_algorithms(True)
    try:
        train(Plain())
    finally:
        torch.use_deterministic_algorithms(False)
    assert kernels == []
    assert "not deterministic" in hand.declined[KNOB]


def test_compiled_code_computes_as_it_is_written(turn):
    hand = turn(FUSED)
    net = Causal()
    train(net, steps=1)
    torch._dynamo.reset()
    found = torch.compile(net, backend="eager", fullgraph=True)(torch.ones(2, 9, 16))
    hand.back()
    assert torch.allclose(found, net(torch.ones(2, 9, 16)))
    torch._dynamo.reset()


def test_where_it_fails_is_told_by_the_line_that_is_written(turn):
    turn(FUSED)
    net = Causal()
    train(net)
    with pytest.raises(RuntimeError, match="size") as failed:
        net.attend(torch.ones(1, 2, 40, 8), torch.ones(1, 2, 40, 8), torch.ones(1, 2, 40, 8))
    last = [each.lineno for each in failed.traceback if each.path.name == "test_written_out.py"][-1]
    assert "masked_fill" in Path(__file__).read_text().splitlines()[last]


def attention(body, before="import torch\nimport torch.nn.functional as F\n"):
    lines = "\n".join(f"    {line}" for line in body)
    text = f"{before}def attend(self, q, k, v, mask=None):\n{lines}\n"
    found = _reads.Text(text, {"torch": torch, "F": F})
    (function,) = [one for one in found.around if isinstance(one, ast.FunctionDef)]
    return _written_out.Attention(found, function)


SOFT = "w = F.softmax(w, dim=-1)"


@pytest.mark.parametrize(
    "body",
    [
        ["return (q @ k.mT).softmax(-1) @ v"],
        ["w = q @ k.mT", "if mask is not None:", "    w = w + mask", SOFT, "return w @ v"],
        ["with torch.autocast('cpu'):", "    w = q @ k.mT", f"    {SOFT}", "    y = w @ v"],
        ["w = 2 * torch.bmm(q, k)", SOFT, "w = F.dropout(w, 0.1, self.training)", "y = w @ v"],
        ["w, y = mask", "w = w.T", "y, w = w, q @ k", "w = q @ k", SOFT, "y = w @ v"],
        ["w = q @ k", "w = self.softmax(w)", "y = w @ v", "return y, q @ k"],
    ],
)
def test_texts_that_are_attention(body):
    found = attention(body)
    assert {"product", "attended"} <= {one.kind for one in found.found.values()}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (["return q @ k.mT"], ""),
        (["return (q @ k.mT) @ v"], ""),
        (["return (q @ k.mT).softmax(-1)"], "line 4 may look"),
        (["w = q @ k.mT", SOFT, "return w @ v, w"], "line 6 may look"),
        (["w = q @ k.mT", SOFT, "y = w[0] @ v"], "line 6 may look"),
        (["w = q @ k.mT", SOFT, "f = lambda: w", "return w @ v"], "may look"),
        (["global w", "w = q @ k.mT", SOFT, "return w @ v"], "may look"),
        (["w = self.w = q @ k.mT", SOFT, "return w @ v"], ""),
        (["w = q @ k.mT", SOFT, "return v @ w"], "line 6 may look"),
        (["w = q @ k.mT", SOFT, "w -= 1", "return w @ v"], "line 6 may look"),
        (
            ["for w in v:", "    y = (w, v)", "    w = q @ k.mT", f"    {SOFT}", "    y = w @ v"],
            "5",
        ),
        (["with torch.autocast('cpu'):", "    w = q @ k.mT", SOFT, "y = w @ v"], ""),
        (["w = q @ k.mT", "w = F.relu(w)", "return w @ v"], ""),
        (["F = self.mine", "w = q @ k.mT", SOFT, "return w @ v"], ""),
    ],
)
def test_texts_that_are_something_else(body, why):
    found = attention(body)
    assert found.found == {}
    assert why in found.why


def test_what_is_put_off_is_done_as_it_was_written():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 2, 5, 4, requires_grad=True).unbind()
    mask = torch.rand(5, 5) > 0.7
    does = Attending(lambda: None, lambda _: None)
    scores = does.product(q, k.mT)
    assert type(scores) is Scores
    scores = does.cast(does.added(does.divided(does.scaled(scores, 3), 2.0), v.mean()), "float")
    scores = does.dropout(does.softmax(does.masked(scores, mask, -1.0), 2), 0.0)
    plain = (((q @ k.mT) * 3 / 2.0 + v.mean()).float().masked_fill(mask, -1.0)).softmax(2) @ v
    assert torch.equal(does.attended(scores, v), plain)
