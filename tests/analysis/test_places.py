"""How a place is told in a sentence."""

import pytest

from whyidle.analysis.places import at_place
from whyidle.model.diagnosis import Place


@pytest.mark.parametrize(
    ("function", "line", "told"),
    [
        ("metrics", 12, " in metrics"),
        ("<module>", 12, " at train.py:12"),
        ("<lambda>", 3, " at train.py:3"),
        ("<module>", None, ""),
        (None, 12, ""),
    ],
)
def test_code_outside_functions_is_known_by_its_line(function, line, told):
    place = Place(file="/home/u/train.py", line=line, function=function)
    assert at_place((place,)) == told


def test_no_place_is_told_as_nothing():
    assert at_place(()) == ""
