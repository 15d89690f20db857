"""Spans that are kept the short way are written like the others."""

import json
from pathlib import Path

import numpy as np
import pytest

from whyidle.probe import wire
from whyidle.probe.core import fault_containment
from whyidle.probe.core import recorder as recording
from whyidle.probe.core.recorder import ANNOTATION, OP, STEP, Recorder, name_tag
from whyidle.readers import probe


@pytest.fixture
def recorder(tmp_path):
    found = Recorder(str(tmp_path))
    found.facts = {"pid": 1}
    found.live_in(7)
    return found


def written(recorder):
    recorder.flush_records()
    data = Path(recorder.file_path("spans")).read_bytes()[len(recording.MAGIC) :]
    return [tuple(map(int, row)) for row in np.frombuffer(data, dtype=probe.SPAN)[list(NAMES)]]


NAMES = ("start", "end", "thread", "name", "kind")


def test_both_ways_say_the_same_in_order_of_their_ends(recorder):
    name = recorder.name_number("a")
    recorder.add((5, 6, 8, name, OP))
    for end in (2, 9):
        recorder.short.extend((name_tag(name, ANNOTATION), end - 1, end))
    recorder.add((9, 10, 8, name, OP))
    assert written(recorder) == [
        (1, 2, 7, name, ANNOTATION),
        (5, 6, 8, name, OP),
        (8, 9, 7, name, ANNOTATION),
        (9, 10, 8, name, OP),
    ]


def test_a_step_is_two_spans(recorder):
    name = recorder.name_number("step")
    recorder.short.extend((name_tag(name, STEP), 1, 2))
    first, second = written(recorder)
    work = recorder.name_number(recording.OPTIMIZER, wire.OPTIMIZER_OPERATORS)
    assert first == (1, 2, 7, work, OP)
    assert second == (1, 2, 7, name, ANNOTATION)


def test_another_home_is_not_told_of_what_came_before(recorder):
    recorder.short.extend((name_tag(300, OP), 1, 2))
    recorder.live_in(9)
    recorder.short.extend((name_tag(300, OP), 3, 4))
    assert [(row[2], row[3]) for row in written(recorder)] == [(7, 300), (9, 300)]


@pytest.mark.parametrize("more", [0, 1, 2])
def test_the_oldest_are_dropped_whole(recorder, more):
    """However the queue is full when one more comes."""
    rows = recording.MOST_SHORT // 3
    recorder.short.extend([0] * more)
    for at in range(rows + 10):
        recorder.short.extend((name_tag(5, OP), at, at + 1))
    kept = written(recorder)
    assert [row[0] for row in kept] == list(range(kept[0][0], rows + 10))
    assert len(kept) >= rows - 1
    assert recorder.dropped == 1


@pytest.mark.parametrize("rest", [[-2], [-2, 5], [5], [5, 6], [0, 5, 6]])
def test_what_was_kept_in_part_costs_nothing_else(recorder, rest):
    """Wherever the queue overflowed, or memory ended."""
    whole = (name_tag(1, OP), 1, 2)
    recorder.short.extend((*whole, *rest, *whole, *whole))
    assert len(written(recorder)) in (2, 3)
    recorder.short.extend(whole)
    assert len(written(recorder)) in (3, 4)


def test_who_listens_hears_of_what_was_kept_the_short_way(recorder):
    heard = []
    recorder.heard = heard.extend
    recorder.add((5, 6, 8, 1, OP))
    recorder.short.extend((name_tag(1, OP), 1, 2))
    recorder.flush_records()
    assert heard == [(name_tag(1, OP), 1, 2)]


def test_nothing_is_kept_in_memory_once_nothing_is_written(recorder):
    for _ in range(3):
        recorder.add_sample((1, -1, 7, 0, 0))
    recorder.end_recording()
    recorder.add_sample((1, -1, 7, 0, 0))
    assert not recorder.samples


def test_samples_that_nobody_writes_have_an_end(recorder, monkeypatch):
    monkeypatch.setattr(recording, "MOST_WAITING", 2)
    for _ in range(3):
        recorder.add_sample((1, -1, 7, 0, 0))
    assert len(recorder.samples) == 2


@pytest.mark.parametrize(
    ("most", "left", "why"),
    [
        (100, 1 << 40, "were recorded"),
        (1 << 30, 5 << 20, "has 5 MiB left"),
        (1 << 30, 1 << 40, ""),
        (1 << 30, None, ""),
    ],
    ids=["enough", "full", "room", "a file system that tells no sizes"],
)
def test_a_recording_ends_before_it_fills_the_disk(recorder, monkeypatch, most, left, why):
    monkeypatch.setattr(fault_containment, "seen", set())
    monkeypatch.setattr(recording, "MOST_BYTES", most)
    monkeypatch.setattr(recording, "EVERY_BYTES", 200)
    told = {"f_bavail": (left or 0) // 4096, "f_frsize": 4096, "f_blocks": left and 1 << 40}
    monkeypatch.setattr(recording.os, "statvfs", lambda folder: type("Disk", (), told))
    recorder._reset_after_fork()
    recorder.facts = {"pid": 1}
    for _ in range(20):
        recorder.add((5, 6, 8, recorder.name_number("a"), OP))
    recorder.flush_records()
    size = Path(recorder.file_path("spans")).stat().st_size
    recorder.add((5, 6, 8, recorder.name_number("a"), OP))
    recorder.flush_records()
    more = Path(recorder.file_path("spans")).stat().st_size > size
    facts = json.loads(Path(recorder.file_path("facts.json")).read_text())
    noted = [path.read_text() for path in Path(recorder.folder).glob("*.faults")]
    assert (recorder.broken, more) == (bool(why), not why)
    assert why in facts.get("enough", "")
    assert all(why in note for note in noted)
    assert len(noted) == bool(why)


def test_stacks_that_are_ever_new_have_an_end(recorder, monkeypatch):
    monkeypatch.setattr(recording, "MOST_STACKS", 2)
    assert [recorder.stack_number(text) for text in "abcab"] == [0, 1, -1, 0, 1]
    for number in (1, -1):
        recorder.add_sample((1, -1, 7, number, 0))
    assert [row[3] for row in recorder.samples] == [1]


def test_a_name_is_written_with_its_role(recorder):
    """Whatever a label holds, it stays one line whose role can be read."""
    named = [("Optimizer.step#\tA\nB", wire.OPTIMIZER), ("x", wire.NO_ROLE), ("x", wire.BACKWARD)]
    numbers = [recorder.name_number(*name) for name in named]
    assert numbers == [recorder.name_number(*name) for name in named]
    recorder.add((5, 6, 8, numbers[0], OP))
    recorder.flush_records()
    lines = Path(recorder.file_path("names")).read_text(encoding="utf-8").splitlines()
    found = [wire.split_name(lines[number]) for number in numbers]
    assert found == [(wire.OPTIMIZER, "Optimizer.step#\tA B"), ("", "x"), (wire.BACKWARD, "x")]
