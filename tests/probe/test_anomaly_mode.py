"""What anomaly mode's noting takes, as the process itself times it."""

import threading
import traceback

import pytest
import standin

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.fx import traceback as stacks  # noqa: E402

from whyidle.probe.frameworks.torch import anomaly_mode, debug_modes  # noqa: E402

LAYERS = 3


@pytest.fixture
def loop():
    found = standin.Trained()
    found.modes = debug_modes.install(found)
    yield found
    for undo in list(found.undo.values())[::-1]:
        undo()


@pytest.fixture
def model():
    return torch.nn.Sequential(*[torch.nn.Linear(2, 2) for _ in range(LAYERS)])


def forward(model):
    return model(torch.ones(4, 2)).sum()


def test_each_operator_that_needs_a_gradient_is_counted_and_timed(loop, model):
    with torch.autograd.set_detect_anomaly(True):
        for _ in range(2):
            forward(model).backward()
            loop.steps += 1
    (_, *none), (when, calls, spent, span) = loop.modes.anomaly.read()
    assert none == [0, 0, 0]
    assert calls >= 2 * (LAYERS + 1)
    assert 0 < spent < span < when


def test_a_forward_pass_ends_with_its_step(loop):
    loop.modes.anomaly = found = anomaly_mode.AnomalyMode(loop)
    for begin, end in ((100, 110), (140, 150)):
        found.took(begin, end)
    loop.steps += 1
    found.took(1000, 1010)
    assert found.read()[-1][1:] == (3, 30, 50 + 10)


def test_other_threads_are_not_counted(loop, model):
    with torch.autograd.set_detect_anomaly(True):
        loop.home = threading.get_ident()
        thread = threading.Thread(target=forward, args=(model,))
        thread.start()
        thread.join()
    assert loop.modes.anomaly.calls == 0


def test_it_costs_nothing_before_anybody_asks(loop, model):
    original = stacks.format_stack
    forward(model)
    assert loop.modes.anomaly is None
    assert stacks.format_stack is original


def test_the_stack_that_is_printed_is_the_jobs_own(loop):
    def called():
        return stacks.format_stack(), traceback.format_stack()

    before, alone = called()
    with torch.autograd.set_detect_anomaly(True):
        found, own = called()
    assert loop.modes.anomaly.calls == 1
    assert before[:-1] == alone[:-1]
    assert found[:-1] == own[:-1]
    assert len(found) == len(own)


def test_a_stack_that_is_noted_already_is_left_as_it_is(loop, monkeypatch):
    """As while a graph is traced, where the only line is not ours."""
    monkeypatch.setattr(stacks, "should_preserve_node_meta", True)
    monkeypatch.setitem(stacks.current_meta, "stack_trace", "one")
    with torch.autograd.set_detect_anomaly(True):
        assert stacks.format_stack() == ["one"]


def test_reads_are_thinned(loop, monkeypatch):
    monkeypatch.setattr(anomaly_mode, "MOST_READS", 10)
    found = anomaly_mode.AnomalyMode(loop)
    for calls in range(100):
        found.calls = calls
        reads = list(found.read())
    assert len(reads) <= 10
    assert reads[0][1] == 0
    assert reads[-1][1] == 99
    assert reads == sorted(reads)
