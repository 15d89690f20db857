"""Memory snapshots and dumps of NCCL's flight recorder: what they prove, and what they do not."""

from __future__ import annotations

import gzip
import json
import os
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whyidle.errors import BrokenTraceError, WhyidleError
from whyidle.readers._state.state_files import read_state
from whyidle.recordings.explain import explain_paths

GB = 1 << 30
TRAIN, TORCH = "/job/train.py", "/env/site-packages/torch/nn/functional.py"


def stack(line, function="step"):
    return [
        {"filename": "??", "name": "at::empty", "line": 0},
        {"filename": TORCH, "name": "linear", "line": 9},
        {"filename": TRAIN, "name": function, "line": line},
    ]


def snapshot(*, gap=0, failed=0, history=True):
    """1 GB in use, allocated at line 7; at its peak 3 GB more, at line 9."""
    blocks = [{"address": 0, "size": GB, "state": "active_allocated", "frames": stack(7)}]
    blocks += [{"address": GB, "size": gap, "state": "inactive"}] if gap else []
    trace = [
        {"action": "alloc", "addr": 0, "size": GB, "frames": stack(7)},
        {"action": "alloc", "addr": 9 * GB, "size": 3 * GB, "frames": stack(9)},
        {"action": "free_requested", "addr": 9 * GB, "size": 3 * GB, "frames": stack(9)},
        {"action": "free_completed", "addr": 9 * GB, "size": 3 * GB, "frames": stack(9)},
    ]
    trace += [{"action": "oom", "size": failed}] if failed else []
    segment = {"device": 0, "address": 0, "total_size": GB + gap, "blocks": blocks}
    return {"segments": [segment], "device_traces": [trace if history else []]}


def entry(number, *, state="completed", name="nccl:all_reduce", line=30, group="0"):
    return {
        "process_group": (group, "default_pg"),
        "collective_seq_id": number,
        "profiling_name": name,
        "input_sizes": [[4]],
        "state": state,
        "time_created_ns": number,
        "frames": stack(line),
    }


def record(last, *, state="scheduled", name="nccl:all_reduce", line=30, size=4):
    entries = [entry(number) for number in range(1, last)]
    entries.append(entry(last, state=state, name=name, line=line))
    ranks = str(list(range(size)))
    return {"version": "2.4", "pg_config": {"0": {"name": "0", "ranks": ranks}}, "entries": entries}


def dump(folder, *records):
    for rank, one in enumerate(records):
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(one))
    return folder


def diagnose(path):
    diagnosis, timelines = explain_paths([path])
    assert timelines == ()
    return diagnosis


def write(tmp_path, content, name="snapshot.pickle"):
    data = pickle.dumps(content)
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["snapshot.pickle", "snapshot.pickle.gz"])
def test_the_peak_of_a_snapshot_by_place(tmp_path, name):
    diagnosis = diagnose(write(tmp_path, snapshot(), name))
    assert diagnosis.verdict.state == "inconclusive"
    assert "4.29 GB in use: 75% from train.py:9 (step), 25% from train.py:7" in (
        diagnosis.verdict.headline
    )
    assert diagnosis.findings == []


def test_without_history_the_present_is_told(tmp_path):
    diagnosis = diagnose(write(tmp_path, snapshot(history=False)))
    assert "When it was taken, device 0 had 1.07 GB in use" in diagnosis.verdict.headline


def test_memory_between_tensors_is_fragmentation(tmp_path):
    (finding,) = diagnose(write(tmp_path, snapshot(gap=GB))).findings
    assert (finding.cause, finding.family, finding.severity) == (
        "allocator-thrash",
        "memory",
        "warning",
    )
    assert "50% of the memory reserved" in finding.headline
    assert {place.line for place in finding.where} == {7, 9}
    assert "expandable_segments" in finding.fixes[0].summary


def test_a_small_gap_is_none(tmp_path):
    assert diagnose(write(tmp_path, snapshot(gap=GB // 8))).findings == []


def test_a_failed_allocation_beside_free_memory_is_proof(tmp_path):
    (finding,) = diagnose(write(tmp_path, snapshot(gap=GB // 8, failed=GB // 16))).findings
    assert finding.severity == "critical"
    assert "failed beside it" in finding.headline


def test_a_failed_allocation_of_more_than_is_free_is_no_fragmentation(tmp_path):
    assert diagnose(write(tmp_path, snapshot(gap=GB // 8, failed=GB))).findings == []


def test_a_segment_that_is_wholly_free_can_be_given_back(tmp_path):
    content = snapshot()
    free = [{"address": 50 * GB, "size": 4 * GB, "state": "inactive"}]
    content["segments"].append({"device": 0, "total_size": 4 * GB, "blocks": free})
    assert diagnose(write(tmp_path, content)).findings == []


def test_a_rank_that_has_not_called_a_collective(tmp_path):
    late = record(6, state="completed", line=88)
    diagnosis = diagnose(dump(tmp_path, record(7), record(7), late, record(7)))
    assert diagnosis.verdict.state == "starved"
    assert diagnosis.verdict.cause == "late-rank"
    (finding,) = diagnosis.findings
    assert finding.headline.startswith("Rank 2 has not called all_reduce 7 of group 0, in which 3")
    assert [(place.rank, place.line) for place in finding.where] == [(2, 88), (0, 30)]
    assert diagnosis.run.ranks == 4


def test_ranks_that_call_different_collectives(tmp_path):
    other = record(7, name="nccl:broadcast", line=91)
    (finding,) = diagnose(dump(tmp_path, record(7), other, record(7), record(7))).findings
    assert "Rank 1 has called broadcast as collective 7" in finding.headline


def test_a_rank_without_a_dump(tmp_path):
    (finding,) = diagnose(dump(tmp_path, record(7), record(7), record(7))).findings
    assert "Rank 3 has written no dump" in finding.headline


def test_ranks_that_completed_the_same(tmp_path):
    done = [record(7, state="completed") for _ in range(4)]
    diagnosis = diagnose(dump(tmp_path, *done))
    assert (diagnosis.verdict.state, diagnosis.findings) == ("inconclusive", [])


def test_dumps_as_json(tmp_path):
    for rank, one in enumerate([record(7), record(6, state="completed"), record(7), record(7)]):
        (tmp_path / f"nccl_trace_rank_{rank}.json").write_text(json.dumps(one))
    assert "Rank 1 has not called" in diagnose(tmp_path).verdict.headline


class Harmful:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_no_code_of_a_pickle_is_run(tmp_path):
    path = write(tmp_path, {"segments": [Harmful(tmp_path / "made")], "device_traces": []})
    with pytest.raises(BrokenTraceError, match="not plain"):
        explain_paths([path])
    assert not (tmp_path / "made").exists()


def test_a_trace_in_the_same_folder_is_preferred(tmp_path):
    write(tmp_path, snapshot())
    trace = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": i, "dur": 1} for i in range(9)]
    (tmp_path / "a.json").write_text(json.dumps(trace))
    _, timelines = explain_paths([tmp_path])
    assert len(timelines) == 1


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_damaged_bytes_give_a_state_or_a_clear_error(tmp_path_factory, data):
    whole = pickle.dumps(data.draw(st.sampled_from([snapshot(gap=9, failed=5), record(4)])))
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(2, len(whole) - 1))] = data.draw(st.integers(0, 255))
    read_or_refuse(tmp_path_factory, bytes(damaged[: data.draw(st.integers(2, len(damaged)))]))


ODD = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.floats(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_odd_values_give_a_state_or_a_clear_error(tmp_path_factory, data):
    content = data.draw(st.sampled_from([snapshot(gap=9, failed=5), record(4)]))
    places = list(_containers(content))
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.sampled_from(places))
        keys = sorted(place, key=str) if isinstance(place, dict) else range(len(place))
        if keys:
            place[data.draw(st.sampled_from(list(keys)))] = data.draw(ODD)
    read_or_refuse(tmp_path_factory, pickle.dumps(content))


def _containers(value):
    if isinstance(value, (dict, list)):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _containers(inner)


def read_or_refuse(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / "x.pickle"
    path.write_bytes(data)
    try:
        if read_state(path) is not None:
            explain_paths([path])
    except WhyidleError:
        return  # nothing else may be raised
