"""Checks whether a dataset that the training process reads may be read by worker processes."""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import random
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import DeclinedError

ALONE = frozenset(
    [
        "boto3",
        "botocore",
        "grpc",
        "h5py",
        "lmdb",
        "MySQLdb",
        "netCDF4",
        "psycopg",
        "psycopg2",
        "pymongo",
        "pymysql",
        "redis",
        "requests",
        "socket",
        "sqlite3",
        "ssl",
        "subprocess",
        "tables",
        "tarfile",
        "urllib3",
        "zipfile",
    ]
)
"""packages whose open handles processes must not share: a connection, or a file position that all
of them would move"""
OWN = "have each worker open its own"
GENERATORS = frozenset(["numpy.Generator", "numpy.RandomState", "torch.Generator"])
Wrong = Callable[[Any], str]
"""says what is wrong with a value; empty if nothing is"""
DEPTH, BREADTH = 4, 64
"""depth to which datasets, transforms and lists are searched, and entries searched of each"""
MOST = 4096
"""most objects of a dataset that are inspected in a job that is only watched (about 10 ms)"""
SMALL_BYTES = 64 << 20
"""default size of a container's shared memory: too small for batches"""


def check_several_workers(dataset: Any, *, seeded: bool) -> None:
    """Raise DeclinedError if each worker may return all samples or draw the same random numbers,
    unless the script has ``seeded`` them. A single worker returns what the process itself would."""
    from torch.utils.data import IterableDataset

    if isinstance(dataset, IterableDataset):
        raise DeclinedError(
            "the dataset is an IterableDataset: unless it divides its samples among workers "
            "(torch.utils.data.get_worker_info), each of them would return all samples"
        )
    if not seeded:
        _look_inside(dataset, "dataset", DEPTH, _VisitedObjects(), _explain_shared_generator)


def check_worker_start(dataset: Any, context: Any = None) -> None:
    """Raise DeclinedError if a worker would break an open handle, or cannot be started."""
    _look_inside(dataset, "dataset", DEPTH, _VisitedObjects(), _explain_process_bound)
    _check_shared_memory()
    method = context or multiprocessing
    method = method if isinstance(method, str) else method.get_start_method()
    if method != "fork":
        _check_spawned_start(dataset, str(method))


def explain_unfit(dataset: Any, *, seeded: bool) -> str:
    """Why a dataset should have no workers, as far as a short inspection shows; empty if no reason
    is found. Datasets that workers would repeat are reported elsewhere."""
    try:
        for wrong in (
            (_explain_process_bound,)
            if seeded
            else (_explain_process_bound, _explain_shared_generator)
        ):
            _look_inside(dataset, "dataset", DEPTH, _VisitedObjects(MOST), wrong)
    except DeclinedError as reason:
        return str(reason)
    return ""


class _VisitedObjects(set[int]):
    """The ids of inspected objects, and how many may be inspected."""

    def __init__(self, most: int = sys.maxsize) -> None:
        super().__init__()
        self.most = most


def _look_inside(value: Any, name: str, depth: int, seen: _VisitedObjects, wrong: Wrong) -> None:
    if id(value) in seen or len(seen) >= seen.most:
        return
    if type(value).__module__.partition(".")[0] == "logging":
        return
    seen.add(id(value))
    if why := wrong(value):
        raise DeclinedError(f"{name} {why}")
    if depth and isinstance(value, (list, tuple)):
        for number, part in enumerate(value[:BREADTH]):
            _look_inside(part, f"{name}[{number}]", depth - 1, seen, wrong)
    elif depth and isinstance(value, dict):
        for key in list(value)[:BREADTH]:
            _look_inside(value[key], f"{name}[{key!r}]", depth - 1, seen, wrong)
    elif depth and not isinstance(value, (type, types.ModuleType, types.FunctionType)):
        for key, part in list(getattr(value, "__dict__", {}).items())[:BREADTH]:
            _look_inside(part, f"{name}.{key}", depth - 1, seen, wrong)


def _explain_process_bound(value: Any) -> str:
    """What ties a value to this process, and what to do about it; empty if nothing does."""
    kind = type(value)
    if isinstance(value, types.GeneratorType):
        return "is a generator, which each worker would run in full: store its values"
    real = isinstance(value, io.IOBase) and not isinstance(value, (io.BytesIO, io.StringIO))
    if real and not value.closed and value.readable():
        return f"is an open file, whose position all workers would share: {OWN}"
    package = kind.__module__.partition(".")[0]
    if package in ALONE:
        return f"is an open {package} {kind.__name__}, which cannot be used after a fork: {OWN}"
    if package == "cupy" or _device_type(value) not in ("cpu", "meta"):
        return "is on a GPU, which cannot be used after a fork: keep it on the CPU"
    return ""


def _device_type(value: Any) -> str:
    """The type of the device that holds a value, found without calling the job's code."""
    if isinstance(value, sys.modules["torch"].Tensor):
        return str(value.device.type)
    return str(getattr(vars(type(value)).get("device"), "type", "cpu"))


def _explain_shared_generator(value: Any) -> str:
    """Why each worker's copy of a value would draw the same random numbers; empty if none would.
    PyTorch seeds the global generators of PyTorch, NumPy and Python in each worker."""
    kind = type(value)
    drawing = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
    python = isinstance(value, random.Random) and not isinstance(value, random.SystemRandom)
    if not python and drawing not in GENERATORS:
        return ""
    return (
        f"is a random generator of its own ({drawing}): each worker would have a copy that draws "
        "the same numbers. Seed it in worker_init_fn, or use torch's global generator"
    )


def _check_shared_memory() -> None:
    try:
        free = os.statvfs("/dev/shm")
    except OSError:
        return
    if free.f_bavail * free.f_frsize <= SMALL_BYTES:
        raise DeclinedError(
            f"/dev/shm, where workers put batches, has {free.f_bavail * free.f_frsize >> 20} MiB "
            "free (in a container: --ipc=host or --shm-size)"
        )


class _Nowhere:
    """A file that discards what is written."""

    def write(self, data: Any) -> int:
        return len(data)


def _check_spawned_start(dataset: Any, method: str) -> None:
    """Check that workers that are not forked can import the script and get the dataset."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    try:
        guarded = main is not None and "__main__" in Path(main).read_text("utf-8", "replace")
    except OSError:
        guarded = False
    if not guarded:
        raise DeclinedError(
            f"workers are started by {method} and would run the script again: it has no "
            '`if __name__ == "__main__":`'
        )
    try:
        pickle.Pickler(_Nowhere()).dump(dataset)
    except Exception as error:  # whatever its classes raise
        raise DeclinedError(f"the dataset cannot be pickled for workers: {error}") from error
