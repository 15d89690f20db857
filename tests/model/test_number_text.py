"""Numbers within sentences have no exponents."""

import pytest

from whyidle.model import number_text


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.0475, "47.5 ms"),
        (0.0000588, "0.0588 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1 s"),
        (1.352, "1.35 s"),
        (-1.352, "-1.35 s"),
        (1234.0, "1,234 s"),
    ],
)
def test_lengths_of_time(seconds, told):
    assert number_text.format_duration(seconds) == told


def test_digits():
    assert [number_text.format_digits(x) for x in (0.5, 12.34, 999.4, 1352.0)] == [
        "0.5",
        "12.3",
        "999",
        "1,352",
    ]
