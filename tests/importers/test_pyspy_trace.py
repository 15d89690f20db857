"""Traces of py-spy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from whyidle.errors import BrokenTraceError
from whyidle.importers._pyspy_trace import read_pyspy_trace


def event(kind: str, moment: int, name: str, file: str = "", line: int = 0) -> dict[str, object]:
    args = {"filename": file, "line": line}
    return {
        "args": args,
        "cat": "py-spy",
        "name": name,
        "ph": kind,
        "pid": 7,
        "tid": 1,
        "ts": moment,
    }


def save(path: Path, events: list[dict[str, object]]) -> Path:
    path.write_text(json.dumps(events))
    return path


def test_stacks_last_until_they_change(tmp_path: Path):
    events = [
        event("B", 10, 'process 7:"python job.py"'),
        event("B", 10, "thread (9): MainThread"),
        event("B", 10, "<module>", "/j.py", 3),
        event("B", 10, "Loader.__next__", "/l.py", 5),
        event("E", 30, "Loader.__next__", "/l.py", 5),
        event("B", 30, "f.<locals>.<listcomp>", "/j.py", 4),
        event("E", 70, "f.<locals>.<listcomp>", "/j.py", 4),
        event("E", 70, "<module>", "/j.py", 3),
    ]
    (thread,) = read_pyspy_trace(save(tmp_path / "t.json", events))
    assert (thread.pid, thread.tid, thread.name) == (7, 9, "MainThread")
    assert [(p.begin, p.end, p.frames) for p in thread.periods] == [
        (10_000, 30_000, ("/l.py(5): __next__", "/j.py(3): <module>")),
        (30_000, 70_000, ("/j.py(4): <listcomp>", "/j.py(3): <module>")),
    ]


def test_the_main_thread_of_an_old_python_is_known_by_its_process(tmp_path: Path):
    events = [
        event("B", 10, "thread (0x7F3A): MainThread"),
        event("B", 10, "f", "/j.py", 3),
        event("E", 20, "f", "/j.py", 3),
    ]
    (thread,) = read_pyspy_trace(save(tmp_path / "t.json", events))
    assert thread.tid == 7


def test_a_damaged_trace_is_an_error(tmp_path: Path):
    path = tmp_path / "t.json"
    path.write_text('[{"ph": "B", "pid"')
    with pytest.raises(BrokenTraceError, match="py-spy"):
        read_pyspy_trace(path)
    with pytest.raises(BrokenTraceError, match="py-spy"):
        read_pyspy_trace(tmp_path / "missing.json")
