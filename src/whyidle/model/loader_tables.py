"""Records of the loader and its workers in a watched run.

Tables are structured arrays; times are integer nanoseconds since the timeline's ``base_ns``. -1
means *not read* and never leaves the analysis.
"""

from __future__ import annotations

from collections.abc import Mapping
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
"""One batch where it was made. ``cpu``, ``process_cpu``: CPU time of the thread and the process,
ns; ``delay``: time waiting for a core, ns; ``pickle``: CPU time of pickling earlier batches, ns;
``chars``: bytes read by calls, ``read``: from storage; ``faults``: page faults that read;
``opens``: files opened; ``worker``: -1 in the training process."""
TAKE = np.dtype(
    [("start", "<i8"), ("end", "<i8"), ("unpickle", "<i8"), ("ready", "<i4"), ("iterator", "<u4")]
)
"""One batch that the training process took from workers. ``ready``: batches that were finished at
``start``; ``unpickle``: CPU time, ns; ``iterator`` counts from 1."""
ROW = np.dtype([("time", "<i8"), ("index", "<i8"), ("sum", "<u4"), ("_", "V4")])
"""Checksum of one loaded sample."""
PADDING = np.dtype(
    [
        *((name, "<i8") for name in ("time", "real", "total", "longest", "value")),
        ("rows", "<u4"),
        ("told_by", "<i4"),
    ]
)
"""Positions of one batch (rows times length): ``real`` without padding, ``total``, and ``longest``
if padded to the longest row only. ``value``: the padding value. ``told_by``: 1 a mask, 2 lengths,
3 vectors of zeros, 4 the number at the end of rows."""
SAMPLE = np.dtype([("time", "<i8"), ("stack", "<i4")])
"""Stack sample of a worker inside a batch; ``stack`` indexes ``Loading.stacks``."""


@dataclass(frozen=True, slots=True)
class Iterator:
    """Creation of an iterator of a loader, ns, and the index of the loader."""

    start: int
    end: int
    loader: int


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker process: its start and first batch, ns, operator threads, process id and allowed
    cores (None: not recorded)."""

    number: int
    started: int | None
    first: int
    threads: int
    pid: int | None = None
    cores: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class WorkerSamples:
    """Stack samples of a worker as recorded, and a mask of those inside a batch."""

    samples: StackSamples
    inside: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Loading:
    """All loaders of one training process. ``analysis.sampling`` derives ``samples``, ``stacks``
    and ``still`` from ``worker_samples``."""

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
    still: float = 0.0  # share of worker samples inside a batch that slept for the interpreter lock
    cores: float | None = None  # that the process may use
    threads: int | None = None  # of its operators
    tensors: int | None = None  # in a batch
    batch_bytes: int | None = None  # of them
    types: Mapping[str, int] = field(default_factory=dict)  # type of their elements -> bytes
    sample: str = ""  # what samples are before they are collated: ``text``, ``images``; else empty
