"""Attention that is written out, computed by the fused function: the same numbers."""

import math

import pytest

from whyidle.probe.frameworks.torch.fused_attention import AttentionFuser

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
functional = torch.nn.functional


def draw(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


def attend(q, k, v, *, mask=None, change=lambda scores: scores):
    scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(q.shape[-1]))
    if mask is not None:
        scores = scores.masked_fill(mask[:, :, : q.shape[2], : q.shape[2]] == 0, float("-inf"))
    weights = functional.dropout(functional.softmax(change(scores), dim=-1), 0.5, training=False)
    return weights @ v


def run_both(**changes):
    q, k, v = draw(2, 3, 7, 4), draw(2, 3, 7, 4) + 1, draw(2, 3, 7, 4) - 1
    plain = attend(q, k, v, **changes)
    fuser = AttentionFuser(torch)
    with fuser.fuse():
        fused = attend(q, k, v, **changes)
    assert torch.allclose(plain, fused, atol=1e-6)
    assert fuser.deferred == {}
    return fuser


@pytest.mark.parametrize(
    "mask", [None, torch.ones(1, 1, 9, 9).tril(), draw(9, 9).gt(0).int().fill_diagonal_(1)]
)
def test_written_attention_is_fused(mask):
    mask = None if mask is None else mask.reshape(1, 1, 9, 9)
    assert run_both(mask=mask).used == 1


def test_an_added_mask_and_a_quotient_are_fused():
    assert run_both(change=lambda scores: scores / 2.0).used == 1
    assert run_both(change=lambda scores: scores + torch.eye(7)).used == 1


def test_a_cast_to_the_same_type_changes_nothing():
    assert run_both(change=lambda scores: scores.type(torch.float32)).used == 1
    assert run_both(change=lambda scores: scores.to(torch.float64).float()).used == 0


def test_what_the_fused_function_does_not_do_is_computed_as_written():
    assert run_both(change=torch.tanh).used == 0
    assert run_both(change=lambda scores: scores - scores.amax(-1, keepdim=True)).used == 0


def test_multihead_attention_is_called_without_its_weights():
    layer, x = torch.nn.MultiheadAttention(8, 2, batch_first=True), draw(2, 5, 8)
    fuser = AttentionFuser(torch)
    with fuser.fuse():
        out, weights = layer(x, x, x)
    assert fuser.used == 1
    assert weights is None
    assert torch.allclose(out, layer(x, x, x)[0], atol=1e-6)
