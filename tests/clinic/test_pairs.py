"""How often a job and its cured twin run in turn before what they tell is believed."""

from itertools import repeat

import pytest

from clinic import examine
from clinic.card import Budget, Case, Fault

CASE = Case(
    id="c0070", level="only", workload="rows", kind="single", options={}, budget=Budget(),
    inject=(
        Fault(family="host", buckets=("host",), locus="somewhere", fix="mend it",
              sick={"ill": True}, cured={"ill": False}),
    ),
)  # fmt: skip


class Ran:
    def __init__(self, rate):
        self.told = rate

    def rate(self, measure):
        return self.told


@pytest.mark.parametrize(
    ("sick", "cured", "pairs"),
    [
        (repeat(100.0), repeat(130.0), 1),  # much: one pair tells
        (repeat(100.0), repeat(115.0), 2),
        (repeat(100.0), repeat(101.0), 2),  # little, and the same again
        (iter([100, 110, 100, 110, 100]), iter([101, 111, 101, 111, 101]), 5),  # all drifts
        (repeat(100.0), iter([97, 102, 99, 103, 98]), 5),  # pairs differ
    ],
)
def test_small_gains_take_more_pairs(sick, cured, pairs, monkeypatch):
    def alone(case, options, mode):
        return Ran(float(next(sick if options["ill"] else cured)))

    monkeypatch.setattr("clinic.examine.runs.alone", alone)
    (gain,) = examine.paired(CASE, "cpu").values()
    assert len(gain.pairs) == pairs
