"""Reads what loaders and their workers recorded beside a watched process's spans."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.importers._asked import plain
from whyidle.importers._asleep import asleep_locked
from whyidle.model.loading import BATCH, PADDING, ROW, SAMPLE, TAKE, Iterator, Loading, Worker

_LOOK = np.dtype(
    [("time", "<i8"), ("cpu", "<i8"), ("thread", "<u8"), ("stack", "<u4"), ("held", "<u4")]
)
_ENTRY = re.compile(r"torch/utils/data/_utils/worker\.py\(\d+\): _worker_loop$")
"""where a loader worker begins"""


def loading(folder: Path, pid: str, base: int) -> Loading:
    """The loaders of process ``pid``; empty where it had none. Files may end anywhere."""
    told = document(folder / f"{pid}.loaders.json")
    mine = [pid, *sorted(_children(folder, pid))]
    found = [_looks(folder, one) for one in mine[1:]]
    batches = [records(folder / f"{one}.batches", BATCH) for one in mine]
    stacks: list[str] = []
    looks, still = [], [np.empty(0, bool)]
    for (samples, texts), made in zip(found, batches[1:], strict=True):
        inside = _inside(samples, made)
        looks.append(_seen(samples[inside], len(stacks)))
        leaf = [text.split(";", 1)[0] for text in texts]
        still.append(asleep_locked(samples, leaf)[inside])
        stacks += texts
    asleep = np.concatenate(still)
    joined = _joined(batches, BATCH, base, "start", "end")
    return Loading(
        batches=joined[np.argsort(joined["start"], kind="stable")],
        takes=_joined([records(folder / f"{pid}.takes", TAKE)], TAKE, base, "start", "end"),
        rows=_joined([records(folder / f"{one}.rows", ROW) for one in mine], ROW, base, "time"),
        padding=_joined([records(folder / f"{pid}.padding", PADDING)], PADDING, base, "time"),
        samples=_joined(looks, SAMPLE, base, "time"),
        stacks=tuple(stacks),
        workers=tuple(_worker(folder, one, base) for one in mine[1:]),
        settings=tuple(x for x in told.get("settings", ()) if isinstance(x, dict)),
        iterators=tuple(
            Iterator(begin - base, end - base, number)
            for begin, end, number in told.get("made", ())
        ),
        still=float(asleep.mean()) if len(asleep) else 0.0,
        cores=told.get("cores"),
        threads=told.get("threads"),
        tensors=told.get("tensors") or None,
    )


def records(path: Path, layout: np.dtype[Any], magic: bytes = b"") -> NDArray[Any]:
    """Whole records of a file; none where it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError:
        data = b""
    data = data[len(magic) :] if data.startswith(magic) else b""
    return np.frombuffer(data[: len(data) // layout.itemsize * layout.itemsize], dtype=layout)


def lines(path: Path) -> list[str]:
    """Whole lines of a file."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    except OSError:
        return []


def document(path: Path) -> dict[str, Any]:
    """A JSON object; empty where there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _children(folder: Path, pid: str) -> list[str]:
    return [
        path.name.split(".")[0]
        for path in folder.glob("*.worker.json")
        if str(document(path).get("parent")) == pid.split("-", maxsplit=1)[0]
    ]


def _worker(folder: Path, pid: str, base: int) -> Worker:
    told = document(folder / f"{pid}.worker.json")
    started = told.get("started")
    return Worker(
        number=int(told.get("worker", 0)),
        started=None if started is None else int(started) - base,
        first=int(told.get("first", base)) - base,
        threads=int(told.get("threads", 1)),
        pid=int(pid) if pid.isdigit() else None,
        cores=told.get("cores"),
    )


def _looks(folder: Path, pid: str) -> tuple[NDArray[Any], list[str]]:
    samples, _ = plain(records(folder / f"{pid}.samples", _LOOK))
    stacks = [_of_worker(stack) for stack in lines(folder / f"{pid}.stacks")]
    return samples[samples["stack"] < len(stacks)], stacks


def _of_worker(stack: str) -> str:
    """The stack without what a forked worker inherits: the loop in which its parent stood when it
    started the worker, which never runs in it."""
    frames = stack.split(";")
    entries = (at for at, frame in enumerate(frames) if _ENTRY.search(frame))
    return ";".join(frames[: next(entries, len(frames))])


def _inside(samples: NDArray[Any], made: NDArray[Any]) -> NDArray[np.bool_]:
    """Which samples were taken while a batch was made; a worker that waits for work tells
    nothing."""
    row = np.searchsorted(made["start"], samples["time"], side="right") - 1
    ends = np.append(made["end"], np.iinfo(np.int64).min)  # row -1: before any batch
    inside: NDArray[np.bool_] = samples["time"] < ends[row]
    return inside


def _seen(samples: NDArray[Any], offset: int) -> NDArray[Any]:
    looks = np.empty(len(samples), SAMPLE)
    looks["time"] = samples["time"]
    looks["stack"] = samples["stack"] + offset
    return looks


def _joined(
    tables: list[NDArray[Any]], layout: np.dtype[Any], base: int, *times: str
) -> NDArray[Any]:
    table = np.concatenate([np.empty(0, layout), *tables])
    for time in times:
        table[time] -= base
    return table
