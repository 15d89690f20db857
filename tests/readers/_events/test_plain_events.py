"""Traces that tell by the name of a process what its events are: the legacy autograd profiler's,
and those of Ascend NPUs."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_traces import legacy, npu, span
from written import check, write

from whyidle.analysis.facts import Facts
from whyidle.errors import BrokenTraceError, WhyidleError
from whyidle.model.roles import Role
from whyidle.model.timeline import DeviceKind, HostKind
from whyidle.readers import ascend, kineto, legacy_autograd
from whyidle.readers._files.recording_search import find_importer


def load(tmp_path, reader, events, name="t.json"):
    path = write(tmp_path / name, events)
    assert find_importer(path, None, ()) is reader
    timeline = reader.load(path)
    check(timeline)
    return timeline


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_the_legacy_profiler(tmp_path, name):
    timeline = load(tmp_path, legacy_autograd, legacy(), name)
    kernels = [timeline.names[i] for i in timeline.device.name]
    assert kernels == ["aten::addmm"] * 5  # not the operator around it
    facts = Facts(timeline)
    assert (facts.steps.found_by, len(facts.steps)) == ("optimizer", 5)
    assert (timeline.info.kind, timeline.source.format) == ("cuda", "legacy_autograd")
    assert "legacy autograd profiler" in timeline.source.notes[0]


def test_the_legacy_profiler_of_the_cpu_alone(tmp_path):
    events = [event for event in legacy() if event["pid"] == "CPU functions"]
    timeline = load(tmp_path, legacy_autograd, events)
    assert (timeline.info.kind, len(timeline.device)) == ("cpu", 0)
    assert (timeline.host.kind == HostKind.OP).sum() == 10


def test_an_ascend_npu(tmp_path):
    timeline = load(tmp_path, ascend, npu())
    assert (timeline.info.kind, timeline.info.name) == ("other", "Ascend NPU")
    names = {timeline.names[i] for i in timeline.device.name}
    assert names == {"MatMulV2", "Memcpy DtoH", "hccl hcom_allReduce__616"}
    assert (timeline.device.kind == DeviceKind.MEMCPY).sum() == 5
    assert timeline.base_ns == 1_700_000_000_000_000_125
    facts = Facts(timeline)
    assert (facts.steps.found_by, len(facts.steps)) == ("ProfilerStep", 5)
    assert facts.launches.has_launch.sum() == 5
    assert len(timeline.rows_of(Role.BATCH_INLINE)) == 5
    shares = facts.attribution
    assert shares["compute"] == pytest.approx(0.3, abs=0.02)
    assert shares["input"] == pytest.approx(0.4, abs=0.02)


def test_a_trace_that_only_looks_like_one_of_an_npu(tmp_path):
    events = [span("aten::mm", 7, str(1000 + i), 5, cat="cpu_op") for i in range(9)]
    path = write(tmp_path / "t.json", events, indent=None)
    assert ascend.load(path).source.format == kineto.load(path).source.format


@pytest.mark.parametrize(("reader", "events"), [(legacy_autograd, legacy()), (ascend, npu())])
def test_a_trace_cut_short(tmp_path, reader, events):
    text = json.dumps(events).encode()
    timeline = load(tmp_path, reader, text[: len(text) * 2 // 3])
    assert timeline.cut
    assert timeline.source.lost


def test_no_event_with_a_time_is_an_error(tmp_path):
    path = write(tmp_path / "t.json", [span("aten::mm", "CPU functions", "never", 5)])
    with pytest.raises(BrokenTraceError, match="valid time"):
        legacy_autograd.load(path)


ODD = [None, "", "x", -1, 1e308, 10**30, [], {}, True, "1e5", float("nan")]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_odd_values_give_a_timeline_or_a_clear_error(tmp_path_factory, data):
    reader, events = data.draw(st.sampled_from([(legacy_autograd, legacy()), (ascend, npu())]))
    for _ in range(data.draw(st.integers(1, 6))):
        event = data.draw(st.sampled_from(events))
        key = data.draw(st.sampled_from(["ph", "name", "pid", "tid", "ts", "dur", "args", "id"]))
        event[key] = data.draw(st.sampled_from(ODD))
    path = write(tmp_path_factory.mktemp("odd") / "t.json", events)
    try:
        timeline = reader.load(path)
    except WhyidleError:
        return  # nothing else may be raised
    check(timeline)


def test_accelerators_without_properties_are_named(tmp_path):
    events = [
        {**span("urEnqueueKernelLaunch", 1, 10 * i, 5), "cat": "xpu_runtime"} for i in range(9)
    ]
    timeline = kineto.load(write(tmp_path / "t.json", {"schemaVersion": 1, "traceEvents": events}))
    assert (timeline.info.kind, timeline.info.name) == ("other", "Intel GPU (XPU)")
