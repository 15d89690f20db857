"""Predicted times of fused updates against times measured in training steps."""

import pytest

from whyidle.causes.host._cpu_jobs import fused_update_s
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


def test_or_only_the_present_update_is_slow_which_allocates_memory():
    optimizer = OptimizerFacts("Adam", tensors=4, elements=535_562)
    quiet, busy = fused_update_s(optimizer, 1700 * US), fused_update_s(optimizer, 3400 * US)
    assert busy.low == pytest.approx(2 * quiet.low, rel=0.01)
    assert busy.high == pytest.approx(quiet.high, rel=0.01)


MEASURED = """
    Adam 96 102912 1 2789 2108 909;         Adam 96 102912 96 3433 5939 2177
    Adam 24 397824 1 1798 2230 779;         Adam 4 874 4 181 301 132
    AdamW 96 102912 1 3156 2347 1023;       AdamW 4 136714 1 467 576 231
    AdamW 4 535562 1 2170 1680 818;         Adagrad 96 102912 1 1947 1800 761
    Adagrad 24 397824 24 1346 1956 864;     SGD-momentum 96 102912 1 1183 1070 627
    SGD-momentum 96 102912 96 1287 2149 1379; SGD-momentum 4 874 4 80 126 90
    SGD 96 102912 1 495 361 326;            SGD 96 102912 96 637 1177 1185
"""
"""bench/optimizer_updates.py: tensors, elements, groups, us of a loop, foreach and a fused update
(PyTorch 2.13, one thread, a machine with other work)"""


@pytest.mark.parametrize(
    "row", [row.split() for row in MEASURED.replace(";", "\n").splitlines() if row.strip()]
)
def test_groups_and_foreach_have_costs_of_their_own(row):
    name, momentum = row[0].partition("-")[0], 0.9 if "-" in row[0] else 0.0
    tensors, elements, groups, loop, foreach, fused = map(int, row[1:])
    for taken, grouped in ((loop, None), (foreach, True)):
        facts = OptimizerFacts(name, tensors, elements, groups, foreach=grouped, momentum=momentum)
        ends = fused_update_s(facts, taken * US)
        assert ends.high * 0.95 <= fused * US <= ends.low * 1.05
        assert ends.expected == pytest.approx(fused * US, rel=0.25)
