"""Predicted times of fused updates against times measured in training steps."""

import pytest

from whyidle.causes.host._fused_update import fused_update_s
from whyidle.model.process_facts import OptimizerFacts

US = 1e-6
KEYS = ("name", "momentum", "tensors", "elements")


@pytest.mark.parametrize(
    ("optimizer", "looped", "fused"),
    [  # medians on two virtual cores, PyTorch 2.13, one thread; the last four while others ran
        (("SGD", 0, 2, 110), 74, 76),
        (("SGD", 0, 8, 440), 146, 125),
        (("SGD", 0, 8, 527_874), 422, 430),
        (("SGD", 0.9, 8, 16_640), 162, 97),
        (("SGD", 0.9, 6, 6_296_064), 9076, 4884),
        (("Adam", None, 2, 110), 192, 125),
        (("Adam", None, 4, 220), 255, 122),
        (("Adam", None, 16, 33_280), 838, 231),
        (("Adagrad", None, 2, 110), 210, 153),
        (("Adagrad", None, 16, 880), 437, 172),
        (("AdamW", None, 64, 133_120), 3685, 677),
        (("Adam", None, 8, 527_874), 7371, 885),
        (("Adam", None, 6, 67_331), 1193, 575),
        (("Adagrad", None, 8, 527_874), 2111, 538),
        (("AdamW", None, 6, 1_323_018), 13958, 1994),
    ],
)
def test_the_ends_hold_what_was_measured(optimizer, looped, fused):
    ends = fused_update_s(OptimizerFacts(**dict(zip(KEYS, optimizer, strict=True))), looped * US)
    assert ends.high <= ends.expected <= ends.low
    assert ends.high * 0.95 <= fused * US <= ends.low * 1.05


def test_a_slower_machine_is_slower_at_either():
    optimizer = OptimizerFacts("SGD", tensors=2, elements=110)
    quiet, busy = fused_update_s(optimizer, 75 * US), fused_update_s(optimizer, 225 * US)
    assert busy == pytest.approx([3 * one for one in quiet], rel=0.01)
    assert busy.expected == pytest.approx(225 * US, rel=0.1)
