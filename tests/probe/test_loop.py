"""Whose steps are the job's where several optimizers step, and what is due after some of them."""

import sys

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from whyidle.probe import loop as loops
from whyidle.probe.recorder import Recorder


@pytest.fixture
def loop(tmp_path):
    return loops.Loop(Recorder(str(tmp_path)))


class Sgd:
    """Only its name and identity count."""


def test_the_first_optimizer_leads_until_it_steps_no_more(loop):
    first, second = Sgd(), Sgd()
    loop.other(first)
    assert loop.lead == id(first)
    for end in range(1, 10):
        loop.ends.append(end)
        for _ in range(loops.MOST_OTHERS):
            loop.other(second)
    assert loop.lead == id(first)
    loop.other(second)
    assert loop.lead == id(second)
    names = list(loop.recorder.names)
    assert names[loop.named] == "Optimizer.step#Sgd.step (2)"


def test_what_is_due_is_done_once_and_looks_go_on(loop, monkeypatch):
    done, looks = [], []
    monkeypatch.setattr(loops.debugging, "look", lambda _: looks.append(loop.steps))
    monkeypatch.setattr(loops.Loop, "trains", lambda *_: None)
    for step in range(1, 40):
        loop.steps = step
        if step == 12:
            loop.later(5, lambda: done.append(loop.steps))
        if step >= loop.due:
            loop.notable(None)
    assert done == [17]
    assert looks == [1, 10, 30]
    assert loop.due == 100 < sys.maxsize
