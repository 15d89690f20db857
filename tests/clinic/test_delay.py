"""How long after the onset a planted cause leads: looks at a recording that is cut ever later."""

import numpy as np
import pytest

from clinic import delay
from clinic.card import Case, Fault
from clinic.outcome import Delay
from clinic.times import Times
from whyidle.readers import probe

S = 1_000_000_000
LEAD = "sync-checkpoint"
STEPS = Times(begin=90.0, marks=[100.0 + 0.5 * i for i in range(41)], samples=1)  # to 120 s


@pytest.fixture
def case():
    habit = Fault(cause=LEAD, family="interruption", buckets=("interruption",), locus="", fix="")
    return Case(
        id="c0001", level="only", workload="rows", kind="varying", options={"ill_after": 8.0},
        inject=(habit,), onset="ill_after",
    )  # fmt: skip


def looks(monkeypatch, leads):
    """What leads at each second of the clock."""
    monkeypatch.setattr(delay, "_first", lambda _, until_ns: leads(until_ns / S))


def test_it_counts_from_the_first_of_two_looks_in_a_row(case, tmp_path, monkeypatch):
    looks(monkeypatch, lambda second: LEAD if second in (110.0, 112.0) or second >= 114 else "")
    found = delay.measure(case, STEPS, tmp_path)  # ill from 108 on; 110 and 112 were passing
    assert found == Delay(steps=12, seconds=6.0)


def test_what_is_never_told_of_has_no_delay(case, tmp_path, monkeypatch):
    looks(monkeypatch, lambda _: "python-gc-pauses")
    assert delay.measure(case, STEPS, tmp_path) == Delay(steps=None, seconds=None)


def test_a_recording_is_cut_to_what_was_there_at_the_moment(tmp_path):
    whole, into = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir(), into.mkdir()
    spans = np.zeros(3, probe.SPAN)
    spans["end"] = [1 * S, 2 * S, 3 * S]
    (whole / "7.spans").write_bytes(probe.MAGIC + spans.tobytes())
    samples = np.zeros(3, probe.SAMPLE)
    samples["time"] = [1 * S, 2 * S, 3 * S]
    (whole / "7.samples").write_bytes(samples.tobytes() + b"torn")
    (whole / "7.process.json").write_text("{}")
    (whole / "7.burst-1.json").write_text("{}")
    delay.cut(whole, into, 2 * S)
    assert (into / "7.spans").read_bytes() == probe.MAGIC + spans[:2].tobytes()
    assert (into / "7.samples").read_bytes() == samples[:2].tobytes()
    assert sorted(path.name for path in into.iterdir()) == [
        "7.process.json", "7.samples", "7.spans",
    ]  # fmt: skip
