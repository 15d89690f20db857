"""A file of telemetry survives what happens to files."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from whyidle.model.live.telemetry import Absent, signal_key, split_key
from whyidle.model.live.telemetry_lines import (
    MOST_SETS,
    TelemetryReader,
    TelemetryWriter,
    header_line,
    read_telemetry,
    source_line,
)

VALUES = st.one_of(
    st.none(),
    st.integers(0, 2**63 - 1),
    st.floats(0, 1e300, allow_nan=False),
)
READINGS = st.lists(
    st.dictionaries(st.text('ab@0é\n"\\\0', max_size=5), VALUES, max_size=5),
    max_size=8,
)


def written(readings):
    columns = TelemetryWriter()
    rows = [columns.row_lines("host", at, reading) for at, reading in enumerate(readings)]
    return [header_line(0, 7), *rows]


def read(content):
    lines = TelemetryReader()
    return list(lines.read_rows(content.splitlines(keepends=True))), lines


@settings(max_examples=50, deadline=None)
@given(READINGS)
def test_what_was_written_is_read(readings):
    rows, lines = read(b"".join(written(readings)))
    assert rows == list(enumerate(readings))
    assert (lines.lost, lines.offset_ns) == (0, 7)


@settings(max_examples=50, deadline=None)
@given(READINGS, st.integers(0, 10**6))
def test_a_file_cut_anywhere_loses_its_end_alone(readings, cut):
    content = b"".join(written(readings))
    rows, lines = read(content[: cut % (len(content) + 1)])
    assert rows == list(enumerate(readings))[: len(rows)]
    assert lines.lost <= 1


def test_a_lost_block_in_the_middle():
    keys = {f"s{i}": float(i) for i in range(20)}
    lines = written([keys] * 200)
    content = bytearray(b"".join(lines))
    content[4096:8192] = bytes(4096)
    rows, told = read(bytes(content))
    assert told.lost >= 1
    assert 150 < len(rows) < 200
    assert all(reading == keys for _, reading in rows)


def test_any_noise_is_counted_and_never_raised():
    spread = random.Random(5)
    content = bytearray(b"".join(written([{"a": 1, "b": None}] * 50)))
    for _ in range(300):
        content[spread.randrange(len(content))] = spread.randrange(256)
    rows, lines = read(bytes(content))
    assert lines.lost
    assert all(isinstance(clock, int) for clock, _ in rows)


def test_nan_is_null():
    rows, _ = read(b"".join(written([{"a": float("nan"), "b": float("inf")}])))
    assert rows == [(0, {"a": None, "b": None})]


def test_columns_are_named_when_they_change_and_remembered():
    columns = TelemetryWriter()
    lengths = [
        columns.row_lines("host", 0, reading).count(b"\n")
        for reading in ({"a": 1}, {"a": 2}, {"b": 1}, {"a": 3})
    ]
    assert lengths == [2, 1, 2, 1]
    assert columns.row_lines("nvml", 0, {"a": 1}).count(b"\n") == 2
    for number in range(MOST_SETS):
        columns.row_lines("host", 0, {str(number): 1})
    assert columns.row_lines("host", 0, {"a": 1}).count(b"\n") == 2


def test_a_whole_recording():
    lines = written([{"a": 1, "b@gpu0": None}, {"a": 3, "b@gpu0": 4}])
    lines.insert(1, source_line("host", {"name": "x"}, {"c": Absent("why", "how")}))
    told = read_telemetry(b"".join(lines).splitlines(keepends=True))
    assert told.series["a"].value.tolist() == [1, 3]
    assert told.series["b@gpu0"].time_ns.tolist() == [1]
    assert told.missing["c"] == Absent("why", "how")


def test_later_versions_may_add_lines():
    rows, lines = read(header_line(0, 0) + b'{"weather":"fine"}\n')
    assert (rows, lines.lost) == ([], 0)


def test_keys():
    assert signal_key("power_w", "gpu0") == "power_w@gpu0"
    assert split_key("process_memory_bytes@gpu0.pid7") == ("process_memory_bytes", "gpu0.pid7")
    assert split_key(signal_key("cores_quota")) == ("cores_quota", "")
