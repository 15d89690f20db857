"""Numbers that a fix proposes beside its own."""

import pytest

from whyidle.fixes._values import nearby_values


@pytest.mark.parametrize(
    ("value", "least", "most", "expected"),
    [
        (4, 1, None, (4, 8, 2, 1)),
        (4, 1, 16, (4, 8, 2, 16, 1)),
        (4, 3, 5, (4, 5, 3)),
        (2, 1, 2, (2, 1)),
        (3, 1, 64, (3, 6, 2, 12, 1)),
        (1, 1, 1, (1,)),
        (8, 9, 4, (8,)),
    ],
)
def test_the_nearest_come_first_and_bounds_hold(value, least, most, expected):
    assert nearby_values(value, least, most) == expected
