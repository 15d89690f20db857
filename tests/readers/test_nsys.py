"""Exports of Nsight Systems: processes, launches, ranges, steps, and what versions lack."""

from __future__ import annotations

import gzip
import sqlite3

import msgspec
import pytest
from exports import CALL, EPOCH_NS, KERNEL, MS, NVTX, OS_CALLS, ExportWriter, global_id, job
from hypothesis import given, settings
from hypothesis import strategies as st
from written import REAL, check

from whyidle.analysis.facts import Facts
from whyidle.errors import BrokenTraceError, NotATraceError, WhyidleError
from whyidle.model.roles import Role
from whyidle.model.timeline import DeviceKind, HostKind
from whyidle.readers import nsys
from whyidle.readers._files.recording_search import find_recordings
from whyidle.recordings.explain import explain_paths

SAMPLES = REAL / "nsys"


def load(tmp_path, export):
    timeline = nsys.load(export.write(tmp_path / "report.sqlite"))
    check(timeline)
    return timeline


@pytest.mark.parametrize("old", [False, True])
def test_a_job(tmp_path, old):
    timeline = load(tmp_path, job(old=old))
    info, device = timeline.info, timeline.device
    assert (info.kind, info.name, info.capability) == ("cuda", "NVIDIA A100-SXM4-40GB", (8, 0))
    assert (info.memory_bytes, info.sm_count) == (40 << 30, 108)
    assert timeline.base_ns == EPOCH_NS
    copies = device.take_rows(device.kind == DeviceKind.MEMCPY)
    assert {timeline.names[i] for i in copies.name} == {"Memcpy HtoD (Pinned -> Device)"}
    assert set(copies.size.tolist()) == {4096}
    assert set(device.blocks_per_sm[device.kind == DeviceKind.KERNEL].tolist()) == {1.0}
    calls = timeline.host.take_rows(timeline.host.kind == HostKind.RUNTIME)
    assert len(calls) == 12
    assert {timeline.names[i] for i in calls.name} == {"cudaMemcpyAsync", "cudaLaunchKernel"}


def test_ranges_around_whole_steps_are_steps(tmp_path):
    facts = Facts(load(tmp_path, job()))
    assert (len(facts.steps), facts.steps.found_by) == (6, "framework annotation")
    assert facts.launches.has_launch.all()
    assert facts.attribution["compute"] == pytest.approx(0.5, abs=0.02)
    assert facts.attribution["input"] == pytest.approx(0.2, abs=0.02)


def test_ranges_around_the_optimizer_alone_are_no_steps(tmp_path):
    export = job()
    ranges = [row for row in export.tables[NVTX] if row["end"] - row["start"] == MS]
    export.tables[NVTX] = [{**row, "text": "step", "textId": None} for row in ranges]
    assert Facts(load(tmp_path, export)).steps.found_by is None


def test_processes_with_the_same_ids_are_ranks(tmp_path):
    timeline = load(tmp_path, job(41, 57))
    ranks = (timeline, *timeline.others)
    assert [(rank.rank, rank.world_size, len(rank.device)) for rank in ranks] == [
        (0, 2, 12),
        (1, 2, 12),
    ]
    assert all(Facts(rank).launches.has_launch.all() for rank in ranks)
    assert "2 processes" in timeline.source.notes[0]


def test_a_process_that_hardly_used_the_gpu_is_no_rank(tmp_path):
    export = job(41, steps=80)
    export.add(KERNEL, start=0, end=9, deviceId=0, globalPid=global_id(90), correlationId=1)
    assert load(tmp_path, export).others == ()


def test_operators_of_pytorch_are_told_from_other_ranges(tmp_path):
    export = job()
    name = export.text("aten::mm, seq = 12, sizes = [[4, 4]]")
    export.add(NVTX, start=5, end=9, eventType=59, globalTid=global_id(41, 42), textId=name)
    timeline = load(tmp_path, export)
    operators = timeline.host.take_rows(timeline.host.kind == HostKind.OP)
    assert [timeline.names[i] for i in operators.name] == ["aten::mm"]
    assert timeline.framework == "pytorch"


def test_marks_that_are_no_ranges_are_left_out(tmp_path):
    export = job()
    for kind in (33, 34, 75):
        export.add(NVTX, start=1, end=None, eventType=kind, globalTid=global_id(41), text="mark")
    assert "mark" not in load(tmp_path, export).names


def test_loading_of_modules_is_compiling(tmp_path):
    export = job()
    table = "CUPTI_ACTIVITY_KIND_OVERHEAD"
    export.add(table, start=0, end=MS, globalTid=global_id(41, 42), overheadType=7)
    export.add(table, start=0, end=MS, globalTid=global_id(41, 42), overheadType=1)
    assert len(load(tmp_path, export).rows_of(Role.COMPILE)) == 1


def test_a_wait_in_the_operating_system_is_noted(tmp_path):
    export = job()
    name = export.text("poll")
    export.add(OS_CALLS, start=0, end=30 * MS, globalTid=global_id(41, 42), nameId=name)
    assert any("of the time in poll" in note for note in load(tmp_path, export).source.notes)


def test_a_graph_without_its_kernels_is_work(tmp_path):
    export = job()
    graph = {"deviceId": 0, "streamId": 7, "globalPid": global_id(41), "correlationId": 99}
    export.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=90 * MS, end=95 * MS, **graph)
    timeline = load(tmp_path, export)
    assert timeline.names[timeline.device.name[-1]] == "CUDA graph"


def test_a_recording_of_the_host_alone(tmp_path):
    export = job()
    del export.tables[KERNEL], export.tables["CUPTI_ACTIVITY_KIND_MEMCPY"]
    timeline = load(tmp_path, export)
    assert len(timeline.device) == 0
    assert timeline.info.kind == "cuda"


@pytest.mark.parametrize("lacking", ["gridX", "globalPid", "demangledName", "streamId"])
def test_a_column_that_a_version_lacks(tmp_path, lacking):
    export = job()
    for row in export.tables[KERNEL]:
        del row[lacking]
    assert (load(tmp_path, export).device.kind == DeviceKind.KERNEL).sum() == 6


def test_a_packed_export_in_a_folder(tmp_path):
    path = job().write(tmp_path / "report.sqlite")
    (tmp_path / "run").mkdir()
    packed = tmp_path / "run/report.sqlite.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert find_recordings(tmp_path / "run") == [(packed, None)]
    diagnosis, _ = explain_paths([tmp_path / "run"])
    assert diagnosis.attribution.compute == pytest.approx(0.5, abs=0.02)


def test_a_database_of_another_kind_is_named(tmp_path):
    with sqlite3.connect(tmp_path / "other.sqlite") as database:
        database.execute("CREATE TABLE bookmarks (id)")
    database.close()
    with pytest.raises(NotATraceError, match="bookmarks"):
        nsys.load(tmp_path / "other.sqlite")


def test_an_export_without_events_is_an_error(tmp_path):
    with pytest.raises(BrokenTraceError, match="nsys profile --trace"):
        nsys.load(ExportWriter().write(tmp_path / "empty.sqlite"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return job(41, 57, steps=3).write(tmp_path_factory.mktemp("whole") / "a.sqlite").read_bytes()


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_damaged_bytes_give_a_timeline_or_a_clear_error(whole, tmp_path_factory, data):
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("fuzz") / "x.sqlite"
    path.write_bytes(damaged[: data.draw(st.integers(1, len(damaged)))])
    read(path)


ODD = [None, "", "x", b"\xff", 1.5, -1, 1 << 62, -(1 << 63), 1e300]


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_odd_values_give_a_timeline_or_a_clear_error(tmp_path_factory, data):
    export = job(41, steps=3)
    for _ in range(data.draw(st.integers(1, 5))):
        table = data.draw(st.sampled_from([KERNEL, CALL, NVTX, "TARGET_INFO_GPU"]))
        row = data.draw(st.sampled_from(export.tables[table]))
        row[data.draw(st.sampled_from(sorted(row)))] = data.draw(st.sampled_from(ODD))
    read(export.write(tmp_path_factory.mktemp("odd") / "x.sqlite"))


def read(path):
    try:
        timeline = nsys.load(path)
    except WhyidleError:
        return  # nothing else may be raised
    check(timeline)


EXPECTED = {
    "llm_2gpu_compute": ("compute", 0.8, 0.92),
    # by whether set-up counts. Summed from the tables alone: 294 ms in kernels, of 618 ms from the
    # first runtime call to the last, or of 342 ms from the first kernel to the last
    "cloverleaf_a100_sync": ("compute", 0.45, 0.9),
    # 89 ms in kernels, of 2,025 ms of the program's own ranges, or of 1,041 ms of kernels
    "saxpy_mpi_old_schema": (None, 0.04, 0.1),
    "tiny_rtx3080": ("interruption", 0.0, 0.01),
}


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the shared real traces are not on this machine")
@pytest.mark.parametrize("name", EXPECTED)
def test_real_exports(name):
    """The shares of a careful reader; saxpy copies, and waits for what is not recorded."""
    bucket, least, most = EXPECTED[name]
    diagnosis, _ = explain_paths([SAMPLES / f"{name}.sqlite.gz"])
    shares = msgspec.structs.asdict(diagnosis.attribution)
    largest = max(shares, key=lambda key: shares[key])
    assert largest == (bucket or "unknown")
    assert least <= diagnosis.attribution.compute <= most
