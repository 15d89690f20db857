"""Frames of ours are left out of what a failing job prints, and only those."""

import traceback
from pathlib import Path

import pytest

from whyidle.probe import tracebacks

OWN = str(Path(tracebacks.__file__).with_name("loop.py"))


def wrapped(function):
    """The function inside a wrapper whose code lies in the probe's folder."""
    space = {"function": function}
    code = "def wrapper():\n    return function()\n"
    exec(compile(code, OWN, "exec"), space)
    return space["wrapper"]


def fail():
    raise ValueError("no")


def behind():
    try:
        wrapped(fail)()
    except ValueError as error:
        raise KeyError("another") from error


def names(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_wrappers_go_wherever_they_stand():
    twice = wrapped(wrapped(wrapped(fail)))
    with pytest.raises(ValueError, match="no") as caught:
        twice()
    before = names(caught.value)
    tracebacks.clean(caught.value)
    assert before.count("wrapper") == 3
    assert names(caught.value) == [name for name in before if name != "wrapper"]


def test_exceptions_behind_are_cleaned_too():
    with pytest.raises(KeyError) as caught:
        behind()
    tracebacks.clean(caught.value)
    cause = caught.value.__cause__
    assert names(cause) == ["behind", "fail"]


def test_a_ring_of_exceptions_ends():
    one, other = ValueError("one"), ValueError("other")
    one.__context__, other.__context__ = other, one
    tracebacks.clean(one)


def test_nothing_but_wrappers_leaves_nothing():
    assert tracebacks.without(None) is None
