"""Reads what loaders and their workers recorded beside a watched process's spans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.importers._process_facts import read_value
from whyidle.importers._samples import SAMPLE, decode_samples
from whyidle.model.loading import (
    BATCH,
    PADDING,
    ROW,
    TAKE,
    Iterator,
    Loading,
    Worker,
    WorkerSamples,
)
from whyidle.model.process_facts import LoaderFacts
from whyidle.model.stack_samples import StackSamples


def read_loading(folder: Path, pid: str, base: int) -> Loading:
    """The loaders of process ``pid``; empty where it had none. Files may end anywhere."""
    told = read_document(folder / f"{pid}.loaders.json")
    loaders = read_value(tuple[LoaderFacts, ...], told.get("settings")) or ()
    made = read_value(tuple[tuple[int, int, int], ...], told.get("made")) or ()
    mine = [pid, *sorted(_child_processes(folder, pid))]
    batches = [read_records(folder / f"{one}.batches", BATCH) for one in mine]
    pairs = zip(mine[1:], batches[1:], strict=True)
    samples = tuple(_worker_samples(folder, one, made, base) for one, made in pairs)
    joined = _join_tables(batches, BATCH, base, "start", "end")
    return Loading(
        batches=joined[np.argsort(joined["start"], kind="stable")],
        takes=_join_tables(
            [read_records(folder / f"{pid}.takes", TAKE)], TAKE, base, "start", "end"
        ),
        rows=_join_tables(
            [read_records(folder / f"{one}.rows", ROW) for one in mine], ROW, base, "time"
        ),
        padding=_join_tables(
            [read_records(folder / f"{pid}.padding", PADDING)], PADDING, base, "time"
        ),
        worker_samples=samples,
        workers=tuple(_read_worker(folder, one, base) for one in mine[1:]),
        loaders=loaders,
        iterators=tuple(
            Iterator(begin - base, end - base, number)
            for begin, end, number in made
            if 0 <= number < len(loaders)
        ),
        cores=read_value(float, told.get("cores")),
        threads=read_value(int, told.get("threads")),
        tensors=read_value(int, told.get("tensors")) or None,
    )


def read_records(path: Path, layout: np.dtype[Any], magic: bytes = b"") -> NDArray[Any]:
    """Whole records of a file; none where it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError:
        data = b""
    data = data[len(magic) :] if data.startswith(magic) else b""
    return np.frombuffer(data[: len(data) // layout.itemsize * layout.itemsize], dtype=layout)


def read_lines(path: Path) -> list[str]:
    """Whole lines of a file."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    except OSError:
        return []


def read_document(path: Path) -> dict[str, Any]:
    """A JSON object; empty where there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _child_processes(folder: Path, pid: str) -> list[str]:
    return [
        path.name.split(".")[0]
        for path in folder.glob("*.worker.json")
        if str(read_document(path).get("parent")) == pid.split("-", maxsplit=1)[0]
    ]


def _read_worker(folder: Path, pid: str, base: int) -> Worker:
    told = read_document(folder / f"{pid}.worker.json")
    started = told.get("started")
    return Worker(
        number=int(told.get("worker", 0)),
        started=None if started is None else int(started) - base,
        first=int(told.get("first", base)) - base,
        threads=int(told.get("threads", 1)),
        pid=int(pid) if pid.isdigit() else None,
        cores=told.get("cores"),
    )


def _worker_samples(folder: Path, pid: str, made: NDArray[Any], base: int) -> WorkerSamples:
    stacks = read_lines(folder / f"{pid}.stacks")
    recorded = read_records(folder / f"{pid}.samples", SAMPLE)
    recorded = recorded[recorded["stack"] < len(stacks)]
    rows = decode_samples(recorded, np.unique(recorded["thread"]), base)
    return WorkerSamples(StackSamples(rows, tuple(stacks)), _during_batches(recorded, made))


def _during_batches(samples: NDArray[Any], made: NDArray[Any]) -> NDArray[np.bool_]:
    """Which samples were taken while a batch was made; a worker that waits for work tells
    nothing."""
    row = np.searchsorted(made["start"], samples["time"], side="right") - 1
    ends = np.append(made["end"], np.iinfo(np.int64).min)  # row -1: before any batch
    inside: NDArray[np.bool_] = samples["time"] < ends[row]
    return inside


def _join_tables(
    tables: list[NDArray[Any]], layout: np.dtype[Any], base: int, *times: str
) -> NDArray[Any]:
    table = np.concatenate([np.empty(0, layout), *tables])
    for time in times:
        table[time] -= base
    return table
