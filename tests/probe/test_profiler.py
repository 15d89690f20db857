"""PyTorch's profiler by hand: what it writes, and that nothing of it stays."""

import json
import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from whyidle.probe.frameworks.torch import profiler

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own


def step():
    torch.ones(4, 4, requires_grad=True).square().sum().backward()


@pytest.fixture
def own():
    made = profiler.TorchProfiler(torch, cuda=False)
    yield made
    if made.running:
        made.stop()


def test_steps_are_recorded_and_nothing_stays(own, tmp_path, monkeypatch):
    monkeypatch.delenv("KINETO_LOG_LEVEL", raising=False)
    threads = threading.active_count()
    own.start("ProfilerStep#7")
    step()
    own.mark("ProfilerStep#8")
    assert own.busy()
    step()
    result = own.stop()
    assert not own.running
    assert not torch.autograd._profiler_enabled()
    assert own.busy() is None
    assert "KINETO_LOG_LEVEL" not in os.environ
    path = tmp_path / "1.burst-1.json"
    size = own.save(result, str(path))
    assert size == path.stat().st_size
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    names = [event.get("name") for event in json.loads(path.read_text())["traceEvents"]]
    assert {"ProfilerStep#7", "ProfilerStep#8", "aten::sum"} <= set(names)
    assert threading.active_count() == threads


@pytest.mark.parametrize("name", profiler.TRACERS)
def test_whoever_traces_already_is_left_alone(own, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    assert name in own.why_unavailable()


def test_never_beside_anomaly_mode_or_another_profiler(own):
    assert own.busy() is None
    with torch.autograd.detect_anomaly():
        assert "anomaly" in own.busy()
    with torch.autograd.profiler.profile():
        assert "profiler" in own.busy()


@pytest.mark.parametrize("version", ["12.4", "11.8", None, "12.6", "13.0"])
def test_never_where_cuda_cannot_let_go_of_the_profiler(version):
    old = SimpleNamespace(
        version=SimpleNamespace(cuda=version),
        autograd=SimpleNamespace(kineto_available=lambda: True),
    )
    refused = profiler.TorchProfiler(old, cuda=True).why_unavailable()
    assert bool(refused) == (version not in ("12.6", "13.0"))
    assert profiler.TorchProfiler(old, cuda=False).why_unavailable() is None


class Recorded:
    """What is asked of ``torch`` to record a device."""

    def __init__(self):
        self.cuda = SimpleNamespace(
            is_current_stream_capturing=lambda: False, synchronize=lambda: None
        )
        nothing = SimpleNamespace(__enter__=None)
        self.autograd = SimpleNamespace(
            ProfilerConfig=lambda *_: nothing,
            ProfilerState=SimpleNamespace(KINETO=1),
            ProfilerActivity=SimpleNamespace(CPU=1, CUDA=2),
            profiler=torch.autograd.profiler,
            _prepare_profiler=lambda *_: None,
            _enable_profiler=lambda *_: None,
            _disable_profiler=lambda: None,
        )


@pytest.mark.parametrize("set_by_user", [None, "1"])
@pytest.mark.parametrize("stays", [False, True])
def test_whoever_records_next_finds_the_device_attached(monkeypatch, set_by_user, stays):
    monkeypatch.setattr(os, "environ", {} if set_by_user is None else {profiler.DETACH: "1"})
    own = profiler.TorchProfiler(Recorded(), cuda=True)
    own.start("ProfilerStep#1")
    if stays:
        own.stay()
    own.stop()
    assert os.environ[profiler.DETACH] == ("0" if stays and set_by_user is None else "1")


SILENT = """
import sys
from whyidle.probe.frameworks.torch.profiler import TorchProfiler
import torch
own = TorchProfiler(torch, cuda=False)
for _ in range(2):
    own.start("ProfilerStep#1")
    own.stop()
"""


def test_nothing_is_said_about_it():
    done = subprocess.run([sys.executable, "-c", SILENT], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
