"""What holds for every test."""

import signal
import sys

import pytest


@pytest.fixture(autouse=True)
def mistakes(monkeypatch):
    """A cause that fails fails its test; a user is told of it, and of all else."""
    monkeypatch.setattr("whyidle.engine.diagnose.CONTAINED", ())


@pytest.fixture(autouse=True)
def one_thread():
    """PyTorch in this process computes in one thread: tests run beside each other, and threads that
    wait for a core by spinning take it from those that they wait for."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


@pytest.fixture
def default_hangup():
    """What is started meanwhile ends by SIGHUP, as in a terminal: under ``nohup`` a process and
    all that it starts ignore the signal, and tests that send it need one who does not."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
