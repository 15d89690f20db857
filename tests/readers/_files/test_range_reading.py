"""A trace that several processes read in ranges is the trace that one process reads."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from written import REAL, document, event, kernel, launch, steps, write

from whyidle.errors import NotATraceError
from whyidle.readers import kineto
from whyidle.readers._events import text_ranges as _text_ranges
from whyidle.readers._events.text_ranges import RangeReader
from whyidle.readers._files.range_reading import RangeReading, start_reading

FILES = [
    path
    for job in ("mlp_rtx3080_workers0", "bert_small_h100", "odd_no_gpu", "shampoo_dlrm_rank0")
    for path in (REAL / "kineto").glob(f"{job}*.gz")
]
"""small ones: one event a line and all in one, times with and without fractions, every header"""


@pytest.fixture
def small_ranges(monkeypatch):
    monkeypatch.setattr(_text_ranges, "RANGE_BYTES", 2_000)


def columns_of(timeline):
    """All columns, with texts in the place of their numbers, whose order may differ."""
    texts = {
        "name": np.array([*timeline.names, ""], object),
        "thread": np.array([*timeline.threads, ""], object),
        "detail": np.array([*map(repr, timeline.details), ""], object),
    }
    for table in (timeline.host, timeline.device, timeline.memory):
        for column in table.__slots__:
            values = getattr(table, column)
            yield column, (texts[column][values] if column in texts else values).tolist()


def others_of(timeline):
    columns = {"names", "threads", "details", "host", "device", "memory"}
    columns.add("_found")  # remembers numbers of names, whose order may differ
    fields = [f.name for f in dataclasses.fields(timeline) if f.name not in columns]
    return {name: repr(getattr(timeline, name)) for name in fields}


def read_both(path, helpers):
    """Read in one, and in ranges; and whether the ranges were the whole file."""
    reading, whole = RangeReading(path, None, helpers), []
    finish = reading.finish
    reading.finish = lambda accept: whole.append(finish(accept)) or whole[-1]  # noted, not altered
    try:
        ranged = kineto.load(path, reading=reading)
    finally:
        reading.close()
    return kineto.load(path), ranged, whole == [True]


def assert_same(one, other):
    assert others_of(one) == others_of(other)
    for (name, expected), (_, found) in zip(columns_of(one), columns_of(other), strict=True):
        np.testing.assert_equal(found, expected, err_msg=name)


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
@pytest.mark.usefixtures("small_ranges")
def test_ranges_join_to_the_whole(tmp_path, name):
    path = write(tmp_path / name, document(steps(200), deviceProperties=[{"id": 0}, {"id": 1}]))
    one, ranged, whole = read_both(path, helpers=0)
    assert whole
    assert_same(one, ranged)


@pytest.mark.usefixtures("small_ranges")
def test_a_bare_list_and_keys_after_the_events(tmp_path):
    bare = write(tmp_path / "bare.json", steps(200))
    late = {"traceEvents": steps(200), "deviceProperties": [{"id": 0, "name": "V100"}]}
    for path in (bare, write(tmp_path / "late.json", late)):
        one, ranged, whole = read_both(path, helpers=0)
        assert whole
        assert_same(one, ranged)


@pytest.mark.usefixtures("small_ranges")
def test_fractions_of_times_that_only_a_later_range_has(tmp_path):
    events = steps(100)
    events += [event(ts=ts) for ts in (events[-1]["ts"] + i + 0.375 for i in range(100))]
    one, ranged, whole = read_both(write(tmp_path / "a.json", document(events)), helpers=0)
    assert whole
    assert_same(one, ranged)


TRAP = '},{"ph":"X","cat":"cpu_op","name":"trap","pid":7,"tid":7,"ts":1,"dur":1},{'


@pytest.mark.parametrize(
    "odd",
    [
        event(args={"note": TRAP}),
        event(args={"nested": [event(name="inner", ts=i) for i in range(99)]}),
    ],
    ids=["boundaries in a text", "boundaries in a list"],
)
@pytest.mark.usefixtures("small_ranges")
def test_a_wrong_boundary_is_noticed(tmp_path, odd):
    one, ranged, _ = read_both(write(tmp_path / "a.json", document([*steps(9), odd] * 9)), 0)
    assert_same(one, ranged)


@pytest.mark.parametrize("cut", [0.3, 0.7, 0.999])
@pytest.mark.usefixtures("small_ranges")
def test_a_file_that_is_cut_short_is_read_in_one(tmp_path, cut):
    text = json.dumps(document(steps(200))).encode()
    path = write(tmp_path / "a.json", text[: int(cut * len(text))])
    one, ranged, whole = read_both(path, helpers=0)
    assert not whole
    assert_same(one, ranged)


@pytest.mark.usefixtures("small_ranges")
def test_a_packed_file_that_is_cut_short_is_read_in_one(tmp_path):
    packed = gzip.compress(json.dumps(document(steps(3_000))).encode())
    one, ranged, whole = read_both(write(tmp_path / "b.json", packed[: len(packed) // 2]), 0)
    assert not whole
    assert_same(one, ranged)


@pytest.mark.usefixtures("small_ranges")
def test_something_else_is_named(tmp_path):
    path = write(tmp_path / "a.json", {"rows": [{"a": 1}, {"a": 2}] * 999})
    reading = RangeReading(path, None, 0)
    with pytest.raises(NotATraceError):
        kineto.load(path, reading=reading)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Some ranges of the real size, of few events that say much."""
    note = {"note": "x" * 9_000}
    listed = [
        one
        for i in range(2_000)
        for one in (event(ts=9 * i, args=note), launch(9 * i, i), kernel(9 * i, i))
    ]
    return write(tmp_path_factory.mktemp("large") / "a.json", document(listed), indent=None)


def test_helpers_read_the_same(large):
    one, ranged, whole = read_both(large, helpers=2)
    assert whole
    assert_same(one, ranged)


def test_a_helper_that_dies_is_no_loss(large):
    reading = RangeReading(large, None, 1)
    while not reading._helpers:
        time.sleep(0.001)
    os.kill(reading._helpers[0]._process.pid, signal.SIGKILL)
    try:
        assert_same(kineto.load(large), kineto.load(large, reading=reading))
    finally:
        reading.close()


def test_a_reading_that_nobody_finishes_leaves_no_process(large):
    reading = RangeReading(large, None, 2)
    while len(reading._helpers) < 2:
        time.sleep(0.001)
    reading.close()
    assert all(helper._process.poll() is not None for helper in reading._helpers)
    assert not any(thread.is_alive() for thread in reading._threads)


@pytest.mark.real_processes("the helper ends when it next writes to its parent")
def test_a_helper_ends_with_its_parent(large):
    code = (
        "import sys, time; from pathlib import Path; "
        "from whyidle.readers._files.range_reading import RangeReading\n"
        "reading = RangeReading(Path(sys.argv[1]), None, 1)\n"
        "while not reading._helpers: time.sleep(0.001)\n"
        "print(reading._helpers[0]._process.pid, flush=True)\ntime.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, large], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    helper = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    for _ in range(500):
        try:
            os.kill(helper, 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)
    os.kill(helper, signal.SIGKILL)
    pytest.fail("the helper outlived its parent")


def test_only_a_single_large_trace_is_begun(tmp_path, large):
    small = write(tmp_path / "small.json", document(steps(3)))
    assert start_reading([small]) is None
    assert start_reading([tmp_path]) is None
    assert start_reading([tmp_path / "none.json"]) is None
    assert start_reading([small, large], helpers=1) is None
    reading = start_reading([large], helpers=1)
    assert reading is not None
    reading.close()


def test_ranges_lie_side_by_side(large):
    reader, end, number = RangeReader(large, None), 0, 0
    while (read := reader.read_range(number)) is not None:
        assert (read.begin, read.is_whole) == (end, True)
        end, number = read.end, number + 1
    reader.close()
    assert end == large.stat().st_size


@pytest.mark.skipif(not FILES, reason="the shared real traces are not on this machine")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
def test_real_traces(path, monkeypatch):
    monkeypatch.setattr(_text_ranges, "RANGE_BYTES", max(1 << 17, path.stat().st_size))
    one, ranged, whole = read_both(path, helpers=0)
    assert whole
    assert_same(one, ranged)
