"""Profiles of TensorFlow and JAX: what each plane, line and event becomes."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import MS, START_NS, PlaneWriter, cpu_job, gpu_job, nested, number, space, tpu_job
from written import REAL, check

from whyidle.analysis.facts import Facts
from whyidle.errors import BrokenTraceError, WhyidleError
from whyidle.model.roles import Role
from whyidle.model.timeline import DeviceKind, HostKind, InputStage
from whyidle.readers import xplane
from whyidle.readers._events.event_rows import find_innermost
from whyidle.readers._files.recording_search import find_recordings
from whyidle.recordings.explain import explain_paths

SAMPLES = REAL / "xplane"


def load(tmp_path, data, name="node7.xplane.pb"):
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    timeline = xplane.load(path)
    check(timeline)
    return timeline


def names_of(timeline, kind):
    return [timeline.names[i] for i in timeline.host.name[timeline.host.kind == kind]]


@pytest.mark.parametrize("name", ["node7.xplane.pb", "node7.xplane.pb.gz"])
def test_a_job_on_a_gpu(tmp_path, name):
    timeline = load(tmp_path, gpu_job(), name)
    info, device = timeline.info, timeline.device
    assert (info.kind, info.memory_bytes, info.sm_count) == ("cuda", 80 << 30, 108)
    assert (timeline.framework, timeline.hostname) == ("jax", "node7")
    assert timeline.base_ns == START_NS
    copies = device.take_rows(device.kind == DeviceKind.MEMCPY)
    assert {timeline.names[i] for i in copies.name} == {"Memcpy HtoD (Pinned -> Device)"}
    assert set(copies.size.tolist()) == {4096}
    facts = Facts(timeline)
    assert facts.launches.has_launch.all()
    assert (len(facts.steps), facts.steps.found_by) == (6, "the profiler's step marks")
    assert facts.attribution["compute"] == pytest.approx(0.5, abs=0.02)
    assert facts.attribution["input"] == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize(("operators", "steps"), [(1, 8), (2, 8), (6, 1)])
def test_operators_that_are_called_one_by_one_are_no_steps(tmp_path, operators, steps):
    host = PlaneWriter("/host:CPU")
    calls = [
        (f"PjitFunction(op{one})", (turn * operators + one) * 1000, 900, {})
        for turn in range(8)
        for one in range(operators)
    ]
    host.line("python", calls)
    found = Facts(load(tmp_path, space(host))).steps
    assert (len(found), found.found_by is None) == (steps, steps == 1)


def test_driver_calls_belong_to_the_thread_that_made_them(tmp_path):
    timeline = load(tmp_path, gpu_job())
    runtime = timeline.host.take_rows(timeline.host.kind == HostKind.RUNTIME)
    assert {timeline.threads[i] for i in runtime.thread} == {"python"}


def test_a_copy_of_rocm_has_the_direction_of_its_call(tmp_path):
    gpu = PlaneWriter("/device:GPU:0", device_vendor="AMD")
    gpu.line("Stream #2", [("__amd_rocclr_copyBuffer.kd", 5000, 900, {"correlation_id": 3})])
    host = PlaneWriter("/host:CPU")
    host.line("python", [("hipMemcpyDtoHAsync", 1000, 500, {"correlation_id": 3})])
    timeline = load(tmp_path, space(gpu, host))
    assert timeline.info.kind == "rocm"
    assert timeline.device.kind.tolist() == [DeviceKind.MEMCPY]
    assert timeline.names[timeline.device.name[0]] == "Memcpy DtoH"


def test_a_job_on_the_cpu_that_waits_for_input(tmp_path):
    timeline = load(tmp_path, cpu_job())
    assert (timeline.info.kind, timeline.framework) == ("cpu", "tensorflow")
    facts = Facts(timeline)
    assert (len(facts.steps), facts.steps.found_by) == (8, "framework annotation")
    shares = {name: round(share, 1) for name, share in facts.attribution.items() if share > 0.01}
    assert shares == {"input": 0.6, "compute": 0.2, "host": 0.2}


def test_the_slowest_stage_of_an_input_pipeline_is_found(tmp_path):
    host = PlaneWriter("/host:CPU")
    stages = [
        ("Iterator::Root", 0, 18 * MS),
        ("Iterator::Root::Prefetch", 0, 18 * MS),
        ("Iterator::Root::Prefetch::MapAndBatch", 0, 17 * MS, {"parallelism": 1}),
        ("Iterator::Root::Prefetch::MapAndBatch::Range", 0, 1000),
    ]
    host.line("tf_data_iterator_resource/1", stages)
    host.line("tf_data_private_threadpool/2", [("PyFunc:PyFunc", 0, 2 * MS)])
    host.line("python", [("one_step", 0, 20 * MS)])
    stage = load(tmp_path, space(host)).source.input_stage
    assert stage == InputStage("MapAndBatch", 0.017, 1, "PyFunc", 0.002)


def test_a_job_on_a_tpu(tmp_path):
    timeline = load(tmp_path, tpu_job())
    assert (timeline.info.kind, timeline.info.name) == ("tpu", "TPU v4")
    used = {timeline.names[i] for i in timeline.device.name}
    assert used == {"fusion.3", "fusion.4", "all_reduce_start.6"}
    facts = Facts(timeline)
    assert len(facts.steps) == 6
    assert facts.attribution["input"] == pytest.approx(0.6, abs=0.02)
    assert facts.attribution["compute"] == pytest.approx(0.3, abs=0.02)
    assert facts.attribution["communication"] == pytest.approx(0.1, abs=0.02)


def test_functions_of_python_are_named_as_files_and_lines(tmp_path):
    traced = [("$train.py:12 step", 0, 9 * MS), ("$builtins len", MS, MS)]
    host = PlaneWriter("/host:CPU").line("python", traced)
    timeline = load(tmp_path, space(host))
    assert names_of(timeline, HostKind.PYTHON) == ["train.py(12): step", "builtins: len"]


def test_a_wait_for_the_device_is_a_synchronisation(tmp_path):
    host = PlaneWriter("/host:CPU").line("python", [("CommonPjRtBuffer::Await", 0, MS)])
    timeline = load(tmp_path, space(host))
    assert len(timeline.rows_of(Role.SYNC)) == 1


def test_what_is_unknown_in_an_event_is_skipped(tmp_path):
    event = number(1, 1) + number(2, 0) + nested(77, "later") + number(3, 5_000_000)
    shared = nested(4, number(1, 1) + nested(2, nested(2, "PjitFunction(f)")))
    plane = nested(2, "/host:CPU") + nested(3, nested(2, "python") + nested(4, event)) + shared
    timeline = load(tmp_path, nested(1, plane))
    assert timeline.host.end.tolist() == [5000]


def test_a_file_cut_short_keeps_its_whole_planes(tmp_path):
    data = gpu_job()
    timeline = load(tmp_path, data[: len(data) // 2])
    assert timeline.cut
    assert "beyond its message" in timeline.source.lost
    assert len(timeline.device)


@pytest.mark.parametrize(
    "data", [b"", gpu_job()[:40], space(PlaneWriter("/host:CPU")), b"\xff" * 99]
)
def test_nothing_to_read_is_an_error_with_a_way_on(tmp_path, data):
    path = tmp_path / "x.xplane.pb"
    path.write_bytes(data)
    with pytest.raises(BrokenTraceError) as caught:
        xplane.load(path)
    assert caught.value.why
    assert caught.value.hint


def test_a_folder_of_tensorboard_is_read_without_the_copy_for_its_viewer(tmp_path):
    run = tmp_path / "train/plugins/profile/2026_01_02_03_04_05"
    run.mkdir(parents=True)
    (run / "node7.xplane.pb").write_bytes(gpu_job())
    (run / "node7.trace.json.gz").write_bytes(gzip.compress(b'{"traceEvents": []}'))
    (run / "node7.overview_page.pb").write_bytes(b"\x0a\x02ab")
    assert [path.name for path, _ in find_recordings(tmp_path)] == ["node7.xplane.pb"]


def test_hosts_of_one_run_are_ranks(tmp_path):
    for host in ("node7", "node8"):
        (tmp_path / f"{host}.xplane.pb").write_bytes(gpu_job())
    diagnosis, timelines = explain_paths([tmp_path])
    assert len(timelines) == 2
    assert diagnosis.run.ranks == 2


def test_only_calls_without_others_inside_are_innermost():
    start = np.array([0, 1, 5, 20])
    end = np.array([10, 4, 10, 30])
    assert find_innermost(start, end).tolist() == [False, True, True, True]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_damaged_bytes_give_a_timeline_or_a_clear_error(tmp_path_factory, data):
    whole = data.draw(st.sampled_from([gpu_job(3), cpu_job(3), tpu_job(3)]))
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("fuzz") / "x.xplane.pb"
    path.write_bytes(damaged[: data.draw(st.integers(1, len(damaged)))])
    try:
        timeline = xplane.load(path)
    except WhyidleError:
        return  # nothing else may be raised
    check(timeline)


EXPECTED = {
    "jax_gemm_mi300x.xplane.pb": ("starved", "host", 0.37),
    "jax_elementwise_mi300x.xplane.pb": ("starved", "host", 0.38),
    "jax_te_fused_attention_mi350.xplane.pb": ("inefficient", "compute", 0.94),
    "recorded/jax_cpu_loop": ("starved", "host", 0.27),
    "recorded/keras_fit_input_bound": ("starved", "input", 0.23),
}


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the shared real traces are not on this machine")
@pytest.mark.parametrize("name", EXPECTED)
def test_real_profiles_are_judged_as_by_a_careful_reader(name):
    state, bucket, busy = EXPECTED[name]
    diagnosis, _ = explain_paths([SAMPLES / name])
    assert (diagnosis.verdict.state, diagnosis.verdict.bound) == (state, bucket)
    assert diagnosis.attribution.compute == pytest.approx(busy, abs=0.04)
