"""Traces of py-spy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from whyidle.errors import BrokenTraceError
from whyidle.readers._events.pyspy_trace import read_pyspy_counts, read_pyspy_trace


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


def test_forked_processes_whose_threads_have_one_number_are_told_apart(tmp_path: Path):
    """As py-spy writes two loader workers: the end of a stack bears the process of the next."""
    events, line = [], {7: 0, 8: 0}
    for sample in range(6):
        for pid, moment in ((7, sample * 20_000), (8, sample * 20_000 + 50)):
            if sample or pid == 8:
                other = 15 - pid
                events += [
                    {**event("E", moment, "work", "/w.py", line[other]), "pid": pid},
                    {**event("E", moment, f"thread ({other}): MainThread"), "pid": pid},
                    {**event("E", moment, f'process {other}:"w"'), "pid": pid},
                ]
            line[pid] = 5 if pid == 7 or sample < 3 else 6
            events += [
                {**event("B", moment, f'process {pid}:"w"'), "pid": pid},
                {**event("B", moment, f"thread ({pid}): MainThread"), "pid": pid},
                {**event("B", moment, "work", "/w.py", line[pid]), "pid": pid},
            ]
    first, second = read_pyspy_trace(save(tmp_path / "t.json", events))
    assert [(p.begin, p.frames) for p in first.periods] == [(0, ("/w.py(5): work",))]
    assert first.periods[0].end >= 100_000_000
    assert (second.periods[0].begin, second.periods[0].end) == (50_000, 60_050_000)
    assert [p.frames for p in second.periods] == [("/w.py(5): work",), ("/w.py(6): work",)]


def test_counts_of_lines_by_thread(tmp_path: Path):
    path = tmp_path / "raw.txt"
    own = 'process 7:"python a b;c.py";thread (7): MainThread'
    path.write_text(
        f"{own};<module> (/j.py:3);A.f (/a (1)/j.py:9) 4\n"
        'process 7:"x";process 8:"y";thread (9): T;run (/j.py:3) 2\n'
        f"{own};f (/a (1)/j.py:9) 1\n"
        "nonsense\n"
    )
    assert read_pyspy_counts(path) == {
        (7, 7): {"/a (1)/j.py(9): f": 5}, (8, 9): {"/j.py(3): run": 2},
    }  # fmt: skip
    with pytest.raises(BrokenTraceError, match="py-spy"):
        read_pyspy_counts(tmp_path / "missing.txt")
