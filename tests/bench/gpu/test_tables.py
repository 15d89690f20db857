"""What the tables of the stages are made from."""

import json

import pytest

from bench.gpu.raw_trace import RawTrace, unite_spans


def make_event(category, name, begin, end, **args):
    """An event of a trace, us."""
    return {"ph": "X", "cat": category, "name": name, "ts": begin, "dur": end - begin, "args": args}


@pytest.fixture
def trace(tmp_path):
    """One step: a batch until 100 us, two overlapping kernels and a copy, launched at once."""
    events = [
        make_event("user_annotation", "ProfilerStep#0", 10, 500),
        make_event("gpu_user_annotation", "ProfilerStep#0", 150, 400),
        make_event("user_annotation", "enumerate(DataLoader)#_Iter.__next__", 20, 100),
        make_event("cuda_runtime", "cudaLaunchKernel", 60, 65, correlation=1),
        make_event("cuda_runtime", "cudaLaunchKernel", 110, 115, correlation=2),
        make_event("cuda_runtime", "cudaMemcpyAsync", 120, 125, correlation=3),
        make_event("kernel", "gemm", 80, 200, correlation=1, stream=7),
        make_event("kernel", "relu", 190, 300, correlation=2, stream=7),
        make_event("gpu_memcpy", "Memcpy", 350, 400, correlation=3, stream=7),
        {"ph": "i", "name": "an instant", "ts": 5},
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    clock = {"begins_ns": [1_010_000]}
    path.with_name("trace.json.clock").write_text(json.dumps(clock), encoding="utf-8")
    return RawTrace.read(path)


def test_intervals_of_a_trace_are_united(trace):
    assert trace.kernels == [(80, 300)]
    assert trace.busy == [(80, 300), (350, 400)]
    assert trace.steps == 1
    assert unite_spans([(5, 6), (0, 2), (1, 3)]) == [(0, 3), (5, 6)]


def test_moments_of_the_host_are_put_on_the_clock_of_the_trace(trace):
    assert trace.to_trace_us(1_060_000) == 60


def test_an_event_comes_when_all_before_it_is_done(trace):
    assert trace.event_moment(50) == 50  # nothing was given to the device yet
    assert trace.event_moment(70) == 200
    assert trace.event_moment(115) == 300
    assert trace.event_moment(450) == 450  # everything was done


def test_a_device_with_work_does_not_wait_for_the_batch(trace):
    assert trace.late_length(0, 500) == 60
    assert trace.late_length(90, 500) == 0
