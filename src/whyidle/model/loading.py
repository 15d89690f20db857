"""What the loader's processes said about their own work: tables of a watched run.

Tables are structured arrays; times are integer nanoseconds since the timeline's ``base_ns``, -1
is *not read* and never leaves the analysis in that form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.model.process_facts import LoaderFacts
from whyidle.model.stack_samples import StackSamples

_TIMES = ("start", "end", "cpu", "process_cpu", "delay", "collate", "pickle", "chars", "read")
BATCH = np.dtype(
    [
        *((name, "<i8") for name in _TIMES),
        ("faults", "<u4"),
        ("opens", "<u4"),
        ("samples", "<u4"),
        ("worker", "<i4"),
    ]
)
"""One batch where it was made. ``cpu``, ``process_cpu``: CPU of the thread and of the whole
process, ns; ``delay``: the thread waited for a core, ns; ``collate``; ``pickle``: CPU of
pickling the batches before it, ns; ``chars``: bytes read by calls, ``read``: from storage;
``faults``: page faults that read; ``opens``: files opened; ``worker``: -1 in the training
process."""
TAKE = np.dtype(
    [("start", "<i8"), ("end", "<i8"), ("unpickle", "<i8"), ("ready", "<i4"), ("iterator", "<u4")]
)
"""One batch taken from workers by the training process. ``ready``: batches that workers had
finished, at the beginning; ``unpickle``: CPU, ns; ``iterator`` counts from 1."""
ROW = np.dtype([("time", "<i8"), ("index", "<i8"), ("sum", "<u4"), ("_", "V4")])
"""A checksum of what the loader made of one sample."""
PADDING = np.dtype(
    [
        *((name, "<i8") for name in ("time", "real", "total", "longest", "value")),
        ("rows", "<u4"),
        ("told_by", "<i4"),
    ]
)
"""Positions of one batch (rows times length) that hold something, all of them, and all if the
batch were padded to its longest row only. ``value``: what padding is made of. ``told_by``: 1 a
mask, 2 lengths, 3 vectors of zeros, 4 the number that rows end in, 5 ids that their embedding
calls padding."""
SAMPLE = np.dtype([("time", "<i8"), ("stack", "<i4")])
"""What a worker was doing at a moment, inside a batch; ``stack`` indexes ``Loading.stacks``."""


@dataclass(frozen=True, slots=True)
class Iterator:
    """An iterator of a loader: when it was made, ns, and the index of its loader."""

    start: int
    end: int
    loader: int


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker process: its start and its first batch, ns (None: not told), threads of an
    operator, its process id, the cores that it may use (None: not told)."""

    number: int
    started: int | None
    first: int
    threads: int
    pid: int | None = None
    cores: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class WorkerSamples:
    """Stack samples of one worker process as recorded, and which of them (a mask of the rows) were
    taken while it made a batch."""

    samples: StackSamples
    inside: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Loading:
    """All loaders of one training process. ``iterators`` index
    ``loaders``; ``cores`` may be used by the process; ``threads`` are its operators', ``tensors``
    those of a batch that it made itself or took from workers (None: not told). ``still`` is the
    share of the looks at workers in the midst of a batch that found them asleep while their
    interpreter's lock was taken: not for storage, and not for a core. ``worker_samples`` are as
    recorded; ``analysis.sampling`` makes ``samples``, ``stacks`` and ``still`` of them."""

    batches: NDArray[Any] = field(default_factory=lambda: np.empty(0, BATCH))
    takes: NDArray[Any] = field(default_factory=lambda: np.empty(0, TAKE))
    rows: NDArray[Any] = field(default_factory=lambda: np.empty(0, ROW))
    padding: NDArray[Any] = field(default_factory=lambda: np.empty(0, PADDING))
    samples: NDArray[Any] = field(default_factory=lambda: np.empty(0, SAMPLE))
    stacks: tuple[str, ...] = ()
    workers: tuple[Worker, ...] = ()
    worker_samples: tuple[WorkerSamples, ...] = ()
    loaders: tuple[LoaderFacts, ...] = ()
    iterators: tuple[Iterator, ...] = ()
    still: float = 0.0
    cores: float | None = None
    threads: int | None = None
    tensors: int | None = None
