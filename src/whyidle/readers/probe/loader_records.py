"""Records of loaders and their workers next to a watched process's spans."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.model.loader_tables import (
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
from whyidle.readers.probe.process_facts import read_value
from whyidle.readers.probe.samples import SAMPLE, decode_samples


def read_loading(folder: Path, pid: str, base: int) -> Loading:
    """Return the loaders of process ``pid``; empty if it had none. Files may end anywhere."""
    document = read_document(folder / f"{pid}.loaders.json")
    loaders = read_value(tuple[LoaderFacts, ...], document.get("settings")) or ()
    iterators = read_value(tuple[tuple[int, int, int], ...], document.get("made")) or ()
    processes = [pid, *sorted(_child_processes(folder, pid))]
    batches = [read_records(folder / f"{process}.batches", BATCH) for process in processes]
    pairs = zip(processes[1:], batches[1:], strict=True)
    samples = tuple(_worker_samples(folder, process, own, base) for process, own in pairs)
    joined = _join_tables(batches, BATCH, base, "start", "end")
    takes = [read_records(folder / f"{pid}.takes", TAKE)]
    rows = [read_records(folder / f"{process}.rows", ROW) for process in processes]
    padding = [read_records(folder / f"{pid}.padding", PADDING)]
    return Loading(
        batches=joined[np.argsort(joined["start"], kind="stable")],
        takes=_join_tables(takes, TAKE, base, "start", "end"),
        rows=_join_tables(rows, ROW, base, "time"),
        padding=_join_tables(padding, PADDING, base, "time"),
        worker_samples=samples,
        workers=tuple(_read_worker(folder, process, base) for process in processes[1:]),
        loaders=loaders,
        iterators=tuple(
            Iterator(begin - base, end - base, number)
            for begin, end, number in iterators
            if 0 <= number < len(loaders)
        ),
        cores=read_value(float, document.get("cores")),
        threads=read_value(int, document.get("threads")),
        tensors=read_value(int, document.get("tensors")) or None,
        batch_bytes=read_value(int, document.get("bytes")) or None,
        types=read_value(dict[str, int], document.get("types")) or {},
        sample=_sample_kind(folder, document, processes[1:]),
    )


def _sample_kind(folder: Path, document: Mapping[str, Any], workers: Sequence[str]) -> str:
    described = [document, *(read_document(folder / f"{pid}.worker.json") for pid in workers)]
    kinds = [read_value(str, one.get("sample")) for one in described]
    return next((kind for kind in kinds if kind), "")


def read_records(path: Path, layout: np.dtype[Any], magic: bytes = b"") -> NDArray[Any]:
    """Return the whole records of a file; none if it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError:
        data = b""
    data = data[len(magic) :] if data.startswith(magic) else b""
    return np.frombuffer(data[: len(data) // layout.itemsize * layout.itemsize], dtype=layout)


def read_lines(path: Path) -> list[str]:
    """Return the whole lines of a file."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    except OSError:
        return []


def read_document(path: Path) -> dict[str, Any]:
    """Return a JSON object; empty if there is none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _child_processes(folder: Path, pid: str) -> list[str]:
    return [
        path.name.split(".")[0]
        for path in folder.glob("*.worker.json")
        if str(read_document(path).get("parent")) == pid.split("-", maxsplit=1)[0]
    ]


def _read_worker(folder: Path, pid: str, base: int) -> Worker:
    document = read_document(folder / f"{pid}.worker.json")
    started = document.get("started")
    return Worker(
        number=int(document.get("worker", 0)),
        started=None if started is None else int(started) - base,
        first=int(document.get("first", base)) - base,
        threads=int(document.get("threads", 1)),
        pid=int(pid) if pid.isdigit() else None,
        cores=document.get("cores"),
    )


def _worker_samples(folder: Path, pid: str, batches: NDArray[Any], base: int) -> WorkerSamples:
    stacks = read_lines(folder / f"{pid}.stacks")
    recorded = read_records(folder / f"{pid}.samples", SAMPLE)
    recorded = recorded[recorded["stack"] < len(stacks)]
    rows = decode_samples(recorded, np.unique(recorded["thread"]), base)
    return WorkerSamples(StackSamples(rows, tuple(stacks)), _during_batches(recorded, batches))


def _during_batches(samples: NDArray[Any], batches: NDArray[Any]) -> NDArray[np.bool_]:
    """Which samples were taken while a batch was prepared."""
    row = np.searchsorted(batches["start"], samples["time"], side="right") - 1
    ends = np.append(batches["end"], np.iinfo(np.int64).min)  # row -1: before any batch
    inside: NDArray[np.bool_] = samples["time"] < ends[row]
    return inside


def _join_tables(
    tables: list[NDArray[Any]], layout: np.dtype[Any], base: int, *times: str
) -> NDArray[Any]:
    table = np.concatenate([np.empty(0, layout), *tables])
    for time in times:
        table[time] -= base
    return table
