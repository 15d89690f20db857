"""Traces that the installed PyTorch records here, on the CPU."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from written import check

from whyidle.model.timeline import HostKind
from whyidle.readers import kineto
from whyidle.readers._files.recording_search import find_recordings

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own


SCRIPT = """
import sys
import torch

def work():
    with torch.profiler.record_function("my_block"):
        (torch.ones(32, 32) @ torch.ones(32, 32)).sum().item()

every = torch.profiler.schedule(wait=0, warmup=0, active=3, repeat=1)
kinds = {"record_shapes": True, "with_stack": True, "profile_memory": True}
written = {"on_trace_ready": lambda prof: prof.export_chrome_trace(sys.argv[1])}
with torch.profiler.profile(schedule=every, **kinds, **written) as prof:
    for _ in range(3):
        work()
        prof.step()
"""
"""a process of its own: where another test registered a device, PyTorch records its calls, too"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    path = tmp_path_factory.mktemp("recorded") / "t.json.gz"
    before = time.time_ns()
    subprocess.run([sys.executable, "-c", SCRIPT, path], check=True, capture_output=True)
    return before, kineto.load(path), time.time_ns()


def test_what_was_run_is_there(recorded):
    _, timeline, _ = recorded
    check(timeline)
    ops = {timeline.names[i] for i in timeline.host.name[timeline.host.kind == HostKind.OP]}
    marks = {
        timeline.names[i] for i in timeline.host.name[timeline.host.kind == HostKind.ANNOTATION]
    }
    assert "aten::mm" in ops
    assert "my_block" in marks
    assert any(mark.startswith("ProfilerStep#") for mark in marks)
    assert (timeline.source.lost, timeline.cut, timeline.source.notes) == (None, False, ())


def test_it_is_a_cpu_recording_with_shapes(recorded):
    _, timeline, _ = recorded
    assert timeline.info.kind == "cpu"
    assert timeline.available_signals() >= {"host_ops", "python_stacks", "shapes"}
    assert any("[32, 32]" in detail.dims.replace("\n", "") for detail in timeline.details)


def test_its_clock_is_the_wall_clock(recorded):
    before, timeline, after = recorded
    starts = timeline.host.start + timeline.base_ns
    assert before - 10**9 < starts.min() <= starts.max() < after + 10**9


def test_a_folder_of_the_tensorboard_handler(tmp_path):
    handler = torch.profiler.tensorboard_trace_handler(str(tmp_path), worker_name="rank3")
    with torch.profiler.profile(on_trace_ready=handler):
        torch.ones(2, 2).sum()
    (origin,) = find_recordings(tmp_path)
    assert kineto.load(origin[0]).rank == 3
