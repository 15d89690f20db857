"""Whose steps are the job's where several optimizers step, and what is due after some of them."""

import functools
import sys
import types

import pytest
import standin

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from whyidle.probe import wire  # noqa: E402
from whyidle.probe.core import events as loops  # noqa: E402
from whyidle.probe.core import fault_containment, frameworks  # noqa: E402
from whyidle.probe.core.listener import Listener  # noqa: E402
from whyidle.probe.core.recorder import ANNOTATION, STEP, Recorder, name_tag  # noqa: E402
from whyidle.probe.frameworks.torch import dataloader, input_waits, step_hooks  # noqa: E402
from whyidle.probe.frameworks.torch.gradient_exchange import GradientExchange  # noqa: E402


@pytest.fixture
def loop(tmp_path):
    return loops.Events(Recorder(str(tmp_path)), standin.Framework())


class Sgd:
    """Only its name and identity count."""


def test_the_first_optimizer_leads_until_it_steps_no_more(loop):
    first, second = Sgd(), Sgd()

    def other(optimizer):
        loop.other_stepped(optimizer, 1, 2)
        loop.steps += 1

    other(first)
    assert loop.lead == id(first)
    for _ in range(1, 10):
        loop.steps += 1
        for _ in range(loops.MOST_OTHERS):
            other(second)
    assert loop.lead == id(first)
    other(second)
    assert loop.lead == id(second)
    name = loop.recorder.name_number("Optimizer.step#Sgd.step (2)", wire.OPTIMIZER)
    assert loop.named == name_tag(name, STEP)


class Hears(Listener):
    """Notes what it hears."""

    listener = "it"

    def __init__(self, loop):
        self.loop, self.looks, self.stepped = loop, [], []

    def on_look(self):
        self.looks.append(self.loop.steps)

    def on_step(self, optimizer):
        self.stepped.append(optimizer)


def test_what_is_due_is_done_once_and_looks_go_on(loop, monkeypatch):
    done, hears = [], Hears(loop)
    loop.add_listener(hears)
    monkeypatch.setattr(loops.Events, "start_reporting", lambda *_: None)
    for step in range(1, 40):
        loop.steps = step
        if step == 12:
            loop.call_later(5, lambda: done.append(loop.steps))
        if step >= loop.due:
            loop.attend_step(None)
    assert done == [17]
    assert hears.looks == [1, 10, 30]
    assert loop.due == 100 < sys.maxsize


def test_who_wants_steps_hears_of_the_next(loop, monkeypatch):
    monkeypatch.setattr(loops.Events, "start_reporting", lambda *_: None)
    hears = Hears(loop)
    for step in range(1, 9):
        loop.steps = step
        if step >= loop.due:
            loop.attend_step("it")
        if step == 3:
            hears.wants_steps = True
            loop.add_listener(hears)
        if step == 6:
            loop.undo.pop("it")()
    assert hears.stepped == ["it"] * 3
    assert not loop.careful
    assert loop.due == 10
    loop.be_careful()
    assert loop.careful
    assert loop.due == 0


def test_a_listener_that_fails_hears_of_nothing_any_more(loop, monkeypatch):
    monkeypatch.setattr(fault_containment, "seen", set())
    monkeypatch.setattr(loops.Events, "start_reporting", lambda *_: None)
    monkeypatch.setattr(Hears, "on_step", lambda *_: 1 / 0)
    hears, closed = Hears(loop), []
    hears.stop_listening = lambda: closed.append(True)
    loop.add_listener(hears)
    for step in (1, 2, 10):
        loop.steps = step
        loop.attend_step("it")
    assert closed == [True]
    assert hears not in loop.listeners
    assert hears.looks == [1]


def test_waiting_and_ends_are_told_from_what_was_written(loop):
    loop.home = loops.thread()
    loop.recorder.live_in(loop.home)
    lead = Sgd()
    loop.other_stepped(lead, 1, 2)
    begin = loops.clock_ns()
    loop.batch_taken(Sgd, begin)
    for end in (10, 20, 30):
        loop.add((loop.named, end - 5, end))
    assert (list(loop.ends), loop.waited) == ([], 0)
    loop.recorder.flush_records()
    assert list(loop.ends) == [10, 20, 30]
    assert 0 < loop.waited <= loops.clock_ns() - begin
    assert loop.batch == name_tag(loop.numbers[Sgd], ANNOTATION)


def test_a_fork_begins_anew(loop):
    loop.home = 7
    loop.recorder.live_in(7)
    loop.add((name_tag(0, STEP), 1, 2))
    loop.careful, loop.steps, loop.due = False, 9, 10
    loop.recorder._reset_after_fork()
    loop._reset_after_fork()
    assert not loop.recorder.short
    assert (loop.steps, loop.home, loop.recorder.home) == (0, 0, 0)
    assert loop.careful


def test_a_backward_pass_has_its_name_from_the_beginning(loop):
    """An optimizer may step before any."""
    begun = name_tag(loop.recorder.name_number(frameworks.BACKWARD, wire.BACKWARD), loops.OP)
    assert loop.backward == begun < 0
    loop.recorder._reset_after_fork()
    loop._reset_after_fork()
    assert loop.backward == name_tag(
        loop.recorder.name_number(frameworks.BACKWARD, wire.BACKWARD), loops.OP
    )


def test_ends_outlast_many_other_spans(loop):
    loop.other_stepped(Sgd(), 1, 2)
    for end in (10, 20, 30):
        loop.add((loop.named, end - 5, end))
    for _ in range(5000):
        loop.add((name_tag(3, ANNOTATION), 31, 32))
    loop.recorder.flush_records()
    assert list(loop.ends) == [10, 20, 30]


def test_nothing_is_kept_once_nothing_is_recorded(loop):
    loop.recorder.end_recording()
    loop.add((name_tag(0, STEP), 1, 2))
    assert not loop.recorder.short
    loop.recorder._reset_after_fork()
    loop._reset_after_fork()
    loop.add((name_tag(0, STEP), 1, 2))
    assert loop.recorder.short


def test_a_step_that_the_user_marks_looks_what_there_is_to_heed(loop, monkeypatch):
    monkeypatch.setattr(loops.Events, "start_reporting", lambda *_: None)
    loop.step_marked()
    assert loop.steps == 1
    assert not loop.careful


class Faulty:
    """Has what hooks are put on, and in their place what raises: all of it counts its calls."""

    calls = faults = 0

    def work(self, *_):
        self.calls += 1

    def fail(self, *_):
        self.faults += 1
        raise ValueError("no")


def of_a_wrap(loop, faulty, owner, monkeypatch):
    loop.patch_call("it", owner, "work", faulty.fail)


def of_backward(loop, faulty, owner, monkeypatch):
    monkeypatch.setattr(owner, "backward", owner.work, raising=False)
    monkeypatch.setattr(loops.Events, "add_span", faulty.fail)
    step_hooks._wrap_backward(loop, owner)
    return "backward"


def of_next(loop, faulty, owner, monkeypatch):
    monkeypatch.setattr(owner, "__next__", owner.work, raising=False)
    monkeypatch.setattr(loops.Events, "batch_taken", faulty.fail)
    input_waits.measure_input_waits(loop, owner)
    return "__next__"


def of_an_exchange(loop, faulty, owner, monkeypatch):
    monkeypatch.setattr(owner, "backward", owner.work, raising=False)
    monkeypatch.setattr(torch, "autograd", owner)
    exchange = GradientExchange(loop, lambda: "gloo")
    exchange.backward_ended = faulty.fail
    exchange.install_hooks()
    return "backward"


def of_a_new_iterator(loop, faulty, owner, monkeypatch):
    monkeypatch.setattr(owner, "_get_iterator", owner.work, raising=False)
    told = types.SimpleNamespace(note_iterator=faulty.fail)
    dataloader._wrap_made(loop, told, object, owner)
    return "_get_iterator"


def of_a_batch(loop, faulty, owner, monkeypatch):
    monkeypatch.setattr(owner, "_next_data", owner.work, raising=False)
    dataloader._wrap_taken(loop, types.SimpleNamespace(note_taken=faulty.fail), owner)
    return "_next_data"


@pytest.mark.parametrize("careful", [True, False])
@pytest.mark.parametrize(
    "hook", [of_a_wrap, of_backward, of_next, of_an_exchange, of_a_new_iterator, of_a_batch]
)
def test_a_hook_that_failed_below_another_only_passes_on(loop, monkeypatch, hook, careful):
    """It cannot come off: what lies on it, of ours or of the job's, would go with it."""
    monkeypatch.setattr(fault_containment, "seen", set())
    loop.careful, faulty = careful, Faulty()
    owner = type("Owner", (), {"work": staticmethod(faulty.work)})
    name = hook(loop, faulty, owner, monkeypatch) or "work"
    below = getattr(owner, name)
    above = staticmethod(functools.partial(below))
    monkeypatch.setattr(owner, name, above)
    for _ in range(3):
        getattr(owner, name)("it")
    assert vars(owner)[name] is above
    assert (faulty.calls, faulty.faults) == (3, 1)
