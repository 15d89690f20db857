"""Frames of ours are left out of what a failing job prints, and only those."""

import sys
import traceback
from pathlib import Path

import pytest
import standin

from whyidle.probe.core import tracebacks

OWN = str(Path(tracebacks.__file__).with_name("events.py"))


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


def beside():
    try:
        wrapped(fail)()
    except ValueError:
        raise KeyError("another")  # noqa: B904


def names(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_wrappers_go_wherever_they_stand():
    twice = wrapped(wrapped(wrapped(fail)))
    with pytest.raises(ValueError, match="no") as caught:
        twice()
    before = names(caught.value)
    tracebacks.clean_exception(caught.value)
    assert before.count("wrapper") == 3
    assert names(caught.value) == [name for name in before if name != "wrapper"]


@pytest.mark.parametrize("function", [behind, beside])
def test_exceptions_behind_are_cleaned_too(function):
    with pytest.raises(KeyError) as caught:
        function()
    tracebacks.clean_exception(caught.value)
    error = caught.value
    assert names(error.__cause__ or error.__context__) == [function.__name__, "fail"]


def test_a_wrapper_may_stand_first():
    with pytest.raises(ValueError, match="no") as caught:
        wrapped(wrapped(fail))()
    error = caught.value.with_traceback(caught.value.__traceback__.tb_next)
    assert names(error) == ["wrapper", "wrapper", "fail"]
    tracebacks.clean_exception(error)
    assert names(error) == ["fail"]


def test_a_hook_of_the_job_s_own_is_left_alone(monkeypatch):
    def own(*_):
        pass

    monkeypatch.setattr(sys, "excepthook", own)
    loop = standin.Loop()
    tracebacks.install_cleaner(loop)
    assert sys.excepthook is own
    assert not loop.undo


def test_python_s_own_hook_comes_back(monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    loop = standin.Loop()
    tracebacks.install_cleaner(loop)
    assert sys.excepthook is not sys.__excepthook__
    loop.undo["traceback"]()
    assert sys.excepthook is sys.__excepthook__


def test_a_ring_of_exceptions_ends():
    one, other = ValueError("one"), ValueError("other")
    one.__context__, other.__context__ = other, one
    tracebacks.clean_exception(one)


def test_nothing_but_wrappers_leaves_nothing():
    assert tracebacks.without_own_frames(None) is None
