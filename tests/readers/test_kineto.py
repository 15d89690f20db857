from __future__ import annotations

import gc
import gzip
import json

import numpy as np
import pytest
from written import START_US, document, event, flow, kernel, launch, load_text, steps, write

from whyidle.errors import BrokenTraceError, InputError, NotATraceError
from whyidle.model.timeline import DeviceKind, HostKind
from whyidle.readers import kineto


def test_columns_hold_what_the_events_say(tmp_path):
    t = load_text(tmp_path, document([event(ts=0), launch(10), kernel(20), flow()]))
    assert [t.names[i] for i in t.host.name] == ["aten::add", "cudaLaunchKernel"]
    assert t.host.kind.tolist() == [HostKind.OP, HostKind.RUNTIME]
    assert t.host.corr.tolist() == [-1, 1]
    assert t.device.kind.tolist() == [DeviceKind.KERNEL]
    assert (t.device.start[0], t.device.end[0]) == (20_000, 70_000)
    assert (t.device.device[0], t.device.stream[0], t.device.size[0]) == (0, 7, -1)
    assert np.isnan(t.device.occupancy[0])
    assert t.source.events == 4
    assert t.source.lost is None
    assert not t.cut


def test_a_bare_list_with_the_categories_of_2020(tmp_path):
    old = [
        event("Operator", "aten::mm", 5, tid="33", args={"Input dims": [[2, 2]]}),
        event("Runtime", "cudaLaunchKernel", 6, args={"correlation": 3}),
        event("Kernel", "gemm", 9, tid="stream 7", pid=0, args={"correlation": 3}),
        event("Memcpy", "Memcpy HtoD", 19, tid="stream 7", pid=0, args={"bytes": "128"}),
    ]
    t = load_text(tmp_path, old)
    assert t.host.kind.tolist() == [HostKind.OP, HostKind.RUNTIME]
    assert t.device.kind.tolist() == [DeviceKind.KERNEL, DeviceKind.MEMCPY]
    assert t.device.stream.tolist() == [7, 7]
    assert t.device.device.tolist() == [0, 0]
    assert t.device.size.tolist() == [-1, 128]
    assert json.loads(t.details[t.host.detail[0]].dims) == [[2, 2]]


@pytest.mark.parametrize("fraction", ["", ".0", ".123", ".999", ".001"])
@pytest.mark.parametrize("start", [1712195495519689, 4458676522690, 0, 7516230579530])
def test_times_are_exact_to_the_nanosecond(tmp_path, start, fraction):
    text = json.dumps(document([event(ts=111), event(ts=222, name="b"), event(ts=333, name="c")]))
    for place, value in (("111", start), ("222", start + 1), ("333", start + 2)):
        text = text.replace(place, f"{value}{fraction}")
    t = load_text(tmp_path, text.encode())
    nanoseconds = int((fraction[1:] or "0").ljust(3, "0"))
    expected = [(start + i) * 1000 + nanoseconds for i in range(3)]
    assert [int(ns) + t.base_ns for ns in t.host.start] == expected


def test_exact_times_may_begin_after_the_first_piece(tmp_path):
    whole = [event(ts=START_US + i) for i in range(3000)]
    text = json.dumps([*whole, *(event(ts=f"<{START_US + i}.123>") for i in range(3000, 9000))])
    t = load_text(tmp_path, text.replace('"<', "").replace('>"', "").encode())
    assert (t.host.start[:3] + t.base_ns).tolist() == [(START_US + i) * 1000 for i in range(3)]
    assert t.host.start[-2:].tolist() == [8_998_123, 8_999_123]


def test_ranks_share_an_absolute_clock(tmp_path):
    a = load_text(tmp_path, document([event(ts=10.5)], baseTimeNanoseconds=10**18))
    b = load_text(tmp_path, document([event(ts=12.5)], baseTimeNanoseconds=10**18))
    assert a.base_ns + int(a.host.start[0]) == 10**18 + 10_500
    assert b.base_ns + int(b.host.start[0]) == 10**18 + 12_500


def test_a_base_that_would_lie_after_2100_is_not_added(tmp_path):
    t = load_text(tmp_path, document([event(ts=4 * 10**15)], baseTimeNanoseconds=10**18))
    assert t.base_ns == 4 * 10**18


def test_impossible_times_are_left_out_and_counted(tmp_path):
    odd = [event(ts=0), event(ts=START_US, dur=-1), event(ts="x"), event(dur=1e40, ts=START_US)]
    del odd[2]["ts"]
    t = load_text(tmp_path, document([event(ts=START_US + i) for i in range(9)] + odd))
    assert len(t.host) == 9
    assert t.source.notes == (
        "events without a time (0) were left out: 1",
        "3 events with impossible times were ignored",
    )
    assert t.base_ns == START_US * 1000


def test_an_infinite_time_is_no_time(tmp_path):
    text = json.dumps([event(ts="<1e999>"), *(event(ts=f"<{START_US}.12{i}>") for i in range(9))])
    t = load_text(tmp_path, text.replace('"<', "").replace('>"', "").encode())
    assert t.host.start.tolist() == list(range(120, 129))


def test_no_event_with_a_possible_time(tmp_path):
    with pytest.raises(BrokenTraceError, match="no event with a valid time"):
        load_text(tmp_path, document([event(ts="x"), event(dur=-1)]))


def test_annotations_hidden_among_operators_are_found(tmp_path):
    t = load_text(
        tmp_path, [event("Operator", "ProfilerStep#3"), event("Operator", "aten::add", 1)]
    )
    assert t.host.kind.tolist() == [HostKind.ANNOTATION, HostKind.OP]


def test_longer_events_come_first_where_two_start_together(tmp_path):
    events = [event(ts=5, dur=1), event(ts=5, dur=9), event(ts=1, dur=2), event(ts=5, dur=4)]
    t = load_text(tmp_path, document(events))
    assert (t.host.end - t.host.start).tolist() == [2000, 9000, 4000, 1000]


def test_collectives_and_kernels_keep_their_details(tmp_path):
    args = {
        "Collective name": "allreduce",
        "In msg nelems": 8,
        "Group size": 2,
        "Process Group Name": "0",
    }
    t = load_text(tmp_path, document([kernel(**args, **{"est. achieved occupancy %": 50})]))
    detail = t.details[t.device.detail[0]]
    assert (detail.collective, detail.elements, detail.group_size, detail.group) == (
        "allreduce",
        8,
        2,
        "0",
    )
    assert t.device.occupancy[0] == 0.5


def test_a_queue_that_waits_for_another_does_no_work(tmp_path):
    queue = [
        event(ts=START_US + i, cat="mtia_ccp_events", name=name)
        for i, name in enumerate(("event_wait", "pe_exe", "dma_request", "event_record"))
    ]
    t = load_text(tmp_path, document([event(ts=START_US), *queue]))
    assert [t.names[i] for i in t.device.name] == ["pe_exe", "dma_request"]


def test_memory_of_the_busiest_device_by_time(tmp_path):
    def sample(ts, device, allocated, kind=1):
        args = {"Device Type": kind, "Device Id": device, "Total Allocated": allocated}
        return {"ph": "i", "name": "[memory]", "ts": ts, "args": {**args, "Total Reserved": 100}}

    samples = [sample(9, 1, 3), sample(8, 1, 2), sample(7, 0, 1), sample(6, -1, 9, kind=0)]
    t = load_text(tmp_path, document([event(ts=5), *samples]))
    assert t.memory.time.tolist() == [3000, 4000]
    assert t.memory.allocated.tolist() == [2, 3]
    assert t.memory.reserved.tolist() == [100, 100]


@pytest.mark.parametrize("value", [None, True, "x", [1], {"a": 1}, 1e300, -5, 10**30, 2**63])
@pytest.mark.parametrize("key", ["pid", "tid", "name", "cat", "ts", "dur", "args", "ph"])
def test_a_field_of_a_wrong_type_costs_at_most_its_event(tmp_path, key, value):
    t = load_text(tmp_path, document([*steps(3), event(ts=START_US) | {key: value}]))
    assert len(t.host) >= 6
    assert len(t.device) == 3


@pytest.mark.parametrize("value", [None, True, "x", "12", [1], {"a": 1}, 1e300, -5, 10**30, 1.5])
@pytest.mark.parametrize(
    "key", ["correlation", "device", "stream", "bytes", "est. achieved occupancy %"]
)
def test_an_argument_of_a_wrong_type_costs_only_itself(tmp_path, key, value):
    t = load_text(tmp_path, document([kernel(), kernel(30, 2, **{key: value})]))
    assert len(t.device) == 2


def test_progress_ends_at_the_whole_file(tmp_path):
    path = write(tmp_path / "t.json.gz", document(steps(500)))
    seen = []
    kineto.load(path, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)
    assert seen == sorted(seen)


@pytest.mark.parametrize("good", [True, False])
def test_the_collector_is_switched_on_again(tmp_path, good):
    path = write(tmp_path / "t.json", document(steps(2)) if good else b"{}")
    try:
        kineto.load(path)
    except InputError:
        assert not good
    assert gc.isenabled()


def test_no_event_list(tmp_path):
    with pytest.raises(NotATraceError, match="JSON of another kind"):
        load_text(tmp_path, {"a": 1})


def test_an_empty_event_list(tmp_path):
    with pytest.raises(BrokenTraceError, match="no event with a valid time"):
        load_text(tmp_path, document([]))


def test_a_chrome_trace_of_another_program(tmp_path):
    with pytest.raises(NotATraceError, match=r"not from PyTorch.*'blink'"):
        load_text(tmp_path, document([event("blink"), event("toplevel")]))


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        kineto.load(tmp_path / "none.json")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(InputError, match="a folder"):
        kineto.load(tmp_path)


@pytest.mark.parametrize("pad", [b"", b"\xef\xbb\xbf", b"\n \n"])
@pytest.mark.parametrize("indent", [None, 1])
def test_byte_order_marks_and_layouts(tmp_path, pad, indent):
    text = pad + json.dumps(document(steps(2000)), indent=indent).encode()
    assert len(load_text(tmp_path, text).host) == 4000


def test_gzip_without_the_suffix_and_in_several_members(tmp_path):
    text = json.dumps(document(steps(50))).encode()
    half = len(text) // 2
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(text[:half]) + gzip.compress(text[half:]))
    t = kineto.load(path)
    assert len(t.host) == 100
    assert t.source.lost is None


def test_what_follows_the_event_list_is_read(tmp_path):
    trailer = {
        "distributedInfo": {"rank": 3, "world_size": 8, "backend": "nccl"},
        "host_name": "n1",
    }
    t = load_text(tmp_path, {"traceEvents": steps(2), **trailer})
    assert (t.rank, t.world_size, t.backend, t.hostname) == (3, 8, "nccl", "n1")


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b'{"schemaVersion": 1', True),
        (b'\xef\xbb\xbf  {"traceEvents": [', True),
        (b'[{"ph": "X"', True),
        (b"[]", True),
        (b"[1, 2]", False),
        (b'{"nodes": []', False),
        (b"SQLite format 3\0", False),
    ],
)
def test_sniff(head, expected):
    assert kineto.sniff(head) is expected


def test_a_profiler_that_recorded_nothing_is_not_called_foreign(tmp_path):
    """What PyTorch 2.13 writes when the training runs in a thread that is not recorded."""
    span = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "ts": 1.0, "dur": 5.0}
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [{**span, "pid": "Spans"}]}))
    with pytest.raises(NotATraceError, match="without any recorded operator") as caught:
        kineto.load(path)
    assert "thread" in caught.value.hint


def test_the_copy_of_a_profile_for_a_viewer_is_named(tmp_path):
    events = [{"ph": "X", "name": "train", "pid": 1, "tid": 1, "ts": i, "dur": 1} for i in range(9)]
    with pytest.raises(NotATraceError, match=r"for trace viewers.*\.xplane\.pb"):
        load_text(tmp_path, document(events))
