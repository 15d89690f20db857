"""Numbers for people."""

import pytest

from whyidle.model.diagnosis import Evidence, Interval, Place, Predicted, Removal
from whyidle.reports import _number_format


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "–"),
        (0, "0 s"),
        (1.234, "1.23 s"),
        (0.0693, "69.3 ms"),
        (0.9999, "1.00 s"),
        (12e-6, "12.0 µs"),
        (5e-9, "5 ns"),
        (3600.0, "3,600 s"),
    ],
)
def test_seconds(value, told):
    assert _number_format.format_seconds(value) == told


@pytest.mark.parametrize(
    ("share", "told"),
    [
        (None, "–"),
        (0, "0%"),
        (0.0004, "<0.1%"),
        (0.034, "3.4%"),
        (0.0996, "10%"),
        (1, "100%"),
    ],
)
def test_percent(share, told):
    assert _number_format.format_percent(share) == told


def test_intervals_keep_both_ends():
    assert _number_format.format_interval(Interval(low=0.02, high=0.331)) == "2.0 to 33%"
    assert _number_format.format_interval(Interval(low=0.2, high=0.2)) == "20%"


@pytest.mark.parametrize(
    ("value", "unit", "told"),
    [
        (0.5, "ratio", "50%"),
        (0.5, "s", "500 ms"),
        (17_000_000, "bytes", "17.0 MB"),
        (12, "workers", "12 workers"),
        (5, "1", "5"),
        ("fp32", None, "fp32"),
        (None, "s", "–"),
        (1234567.0, "", "1.23e+06"),
    ],
)
def test_measured(value, unit, told):
    item = Evidence(quantity="", value=value, unit=unit, window=None, samples=None, source=None)
    assert _number_format.format_evidence(item) == told


@pytest.mark.parametrize(
    ("spot", "told"),
    [
        ((None, None, None, None), "place not recorded"),
        (("a.py", 3, "f", None), "a.py:3 in f"),
        (("a.py", None, None, 2), "a.py (rank 2)"),
        ((None, None, "f", None), "f"),
    ],
)
def test_place(spot, told):
    file, line, function, rank = spot
    assert str(Place(file=file, line=line, function=function, rank=rank)) == told
    assert (
        _number_format.format_place(Place(file=file, line=line, function=function, rank=rank))
        == told
    )


@pytest.mark.parametrize(
    ("low", "high", "told"), [(1.086, 1.094, "1.09×"), (1.05, 1.12, "1.09× (1.05 to 1.12)")]
)
def test_an_interval_without_a_width_is_not_told(low, high, told):
    predicted = Predicted(speedup=1.09, low=low, high=high, method="P1")
    assert _number_format.format_speedup(predicted) == told
    assert _number_format.format_bracketed(low, high, "measured").endswith("measured)")
    assert ("to" in _number_format.format_bracketed(low, high, "measured")) == ("to" in told)


@pytest.mark.parametrize("code", ["P4: ", "P4 and P5: ", "P11: ", ""])
def test_how_a_gain_was_foretold_is_said_without_codes(code):
    told = Predicted(speedup=1.2, low=1.1, high=1.3, method=f"{code}steps replayed")
    assert _number_format.format_method(told) == "steps replayed"


@pytest.mark.parametrize(
    ("speedup", "told"),
    [
        (7.9, "7.90× as fast (6.80 to 9.10) at most"),
        (None, "at least 6.80×, at most 9.10× as fast"),
    ],
)
def test_removal(speedup, told):
    assert _number_format.format_removal(Removal(speedup=speedup, low=6.8, high=9.1)) == told
