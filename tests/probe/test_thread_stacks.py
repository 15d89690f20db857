"""Frames of another thread."""

import gc
import sys
import threading
import time
import weakref
from functools import partial
from itertools import repeat

import pytest

from whyidle.probe.core import thread_stacks
from whyidle.probe.core.sampler import DEPTH, StackTable, describe_stack


def names(found):
    return [frame.f_code.co_name for frame in found]


@pytest.fixture
def other():
    """A thread that waits deep inside of calls, one of them of a generator."""
    ready, go = threading.Event(), threading.Event()

    def inner():
        ready.set()
        go.wait()
        yield 1

    def outer():
        return sum(inner())

    thread = threading.Thread(target=outer)
    thread.start()
    ready.wait()
    yield thread
    go.set()
    thread.join()


def test_frames_come_innermost_first(other):
    found = names(thread_stacks.frames_of(other.ident))
    assert found[-1] == "_bootstrap"
    assert found.index("wait") < found.index("inner") < found.index("outer")


def test_a_thread_that_has_ended_has_none(other):
    assert thread_stacks.frames_of(1) == []
    assert thread_stacks.enclosing_frames(None) == []


def test_they_are_what_walking_gives(other):
    at, walked = sys._getframe(), []
    while at is not None:
        walked.append(at)
        at = at.f_back
    assert thread_stacks.enclosing_frames(sys._getframe()) == walked[: thread_stacks.DEEPEST]


class Held:
    """Something that a variable holds."""


def test_nothing_outlives_the_look_that_saw_it(other, monkeypatch):
    """What a job lets go of must go at once: a loader that is collected later has its workers
    ended in the midst of a step, or in another process that knows nothing of them."""
    monkeypatch.setattr(thread_stacks, "COLLECTS_AFTERWARDS", False)

    def asks():
        held = Held()
        thread_stacks.frames_of(other.ident)
        return weakref.ref(held)

    def is_seen():
        held = Held()
        at[0] = weakref.ref(held)
        ready.set()
        go.wait()

    gc.collect()
    gc.disable()
    try:
        assert asks()() is None
        ready, go, at = threading.Event(), threading.Event(), [None]
        seen = threading.Thread(target=is_seen)
        seen.start()
        ready.wait()
        assert thread_stacks.frames_of(other.ident)
        assert thread_stacks.frames_of(seen.ident)
        go.set()
        seen.join()
        assert at[0]() is None
    finally:
        gc.enable()


def test_no_more_than_so_many_are_asked_for():
    def deep(count):
        return deep(count - 1) if count else thread_stacks.enclosing_frames(sys._getframe())

    assert len(deep(2 * thread_stacks.DEEPEST)) == thread_stacks.DEEPEST


@pytest.mark.skipif(
    not thread_stacks.MADE_WHEN_ASKED, reason="frames have objects, or are made safely"
)
def test_nothing_is_collected_while_frames_are_taken():
    """Else the thread could go on in the middle, and its frames be gone."""
    begun, before = [], gc.get_threshold()
    gc.callbacks.append(lambda phase, info: begun.append(phase))
    try:
        gc.set_threshold(3)
        plain = list(map(list, repeat((), 1000)))
        collected = len(begun)
        begun.clear()
        made = thread_stacks.run_without_gc(partial(list, map(list, repeat((), 1000))))
    finally:
        gc.set_threshold(*before)
        gc.callbacks.pop()
    assert made == plain
    assert collected > 200
    assert len(begun) < 50


class Recorder:
    def __init__(self):
        self.texts = []

    def stack_number(self, text):
        self.texts.append(text)
        return len(self.texts) - 1


def test_the_same_stack_has_the_same_number(other):
    recorder = Recorder()
    stacks = StackTable(recorder)
    first = stacks.stack_number(thread_stacks.frames_of(other.ident))
    time.sleep(0.01)
    assert stacks.stack_number(thread_stacks.frames_of(other.ident)) == first
    assert stacks.stack_number(thread_stacks.enclosing_frames(sys._getframe())) != first
    assert ": inner;" in recorder.texts[first]


def test_a_text_has_no_more_than_so_many_frames():
    def deep(count):
        return (
            deep(count - 1)
            if count
            else describe_stack(thread_stacks.enclosing_frames(sys._getframe()))
        )

    assert deep(3 * DEPTH).count(";") == DEPTH - 1
