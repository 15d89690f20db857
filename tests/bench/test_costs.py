"""Figures of cost are compared with those recorded last, and recorded by date."""

from __future__ import annotations

import pytest

import costs

FIGURE = {
    "ratio": 2.0,
    "least": 1.9,
    "most": 2.2,
    "seconds": 1.0,
    "floor_s": 0.5,
    "cpu_s": 1.5,
    "cpu_ratio": 3.0,
    "memory_mb": 80,
}


@pytest.mark.parametrize(
    ("change", "worse"),
    [
        ({}, []),
        ({"least": 2.2, "cpu_ratio": 3.3, "memory_mb": 88}, []),  # by less than a fifth
        ({"most": 9.0, "ratio": 9.0}, []),  # another program disturbed it
        ({"least": 2.4, "ratio": 2.4}, ["least"]),
        ({"cpu_ratio": 4.0, "memory_mb": 100}, ["cpu_ratio", "memory_mb"]),
        ({"least": 1.0, "cpu_ratio": 1.0, "memory_mb": 10}, []),  # better
    ],
)
def test_what_is_a_fifth_worse_is_told(change, worse):
    told = costs.compare("explain", FIGURE | change, FIGURE | {"date": "2026-11-01"})
    assert [text.split(": ")[1].split(" is ")[0] for text in told] == worse
