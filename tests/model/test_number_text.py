"""Numbers in sentences."""

import pytest

from whyidle.model.number_text import format_part


@pytest.mark.parametrize(
    ("share", "text"),
    [(1.0, "all of it"), (0.995, "all of it"), (0.99, "99% of it"), (0.5, "50% of it")],
)
def test_a_hundred_percent_is_all_of_it(share, text):
    assert format_part(share) == text
