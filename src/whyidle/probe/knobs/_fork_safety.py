"""Whether a dataset that was read in the training process may be read in worker processes."""

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
"""packages whose open handles are not to be shared by processes: a connection, or a place in a
file that all of them would move"""
OWN = "have each worker open its own"
GENERATORS = frozenset(["numpy.Generator", "numpy.RandomState", "torch.Generator"])
Wrong = Callable[[Any], str]
"""says what is wrong with a value; empty where nothing is"""
DEPTH, BREADTH = 4, 64
"""how deep datasets, transforms and lists are looked into, and how many entries of each"""
MOST = 4096
"""so much of a dataset is looked at in a job that is only watched, which takes some 10 ms"""
SMALL_BYTES = 64 << 20
"""what containers have for shared memory unless told otherwise: too little for batches"""


def may_have_several_workers(dataset: Any, *, seeded: bool) -> None:
    """Raises DeclinedError where each of them may give all samples, or draw the same random
    numbers, unless the script has said how they are ``seeded``. One alone gives what the
    training process would."""
    from torch.utils.data import IterableDataset

    if isinstance(dataset, IterableDataset):
        raise DeclinedError(
            "the dataset is an IterableDataset: unless it divides its samples among workers "
            "(torch.utils.data.get_worker_info), each of them would give all samples"
        )
    if not seeded:
        _look_inside(dataset, "dataset", DEPTH, _VisitedObjects(), _explain_shared_generator)


def may_start_workers(dataset: Any, context: Any = None) -> None:
    """Raises DeclinedError where a worker would break what is held open, or cannot be started."""
    _look_inside(dataset, "dataset", DEPTH, _VisitedObjects(), _explain_process_bound)
    _room()
    method = context or multiprocessing
    method = method if isinstance(method, str) else method.get_start_method()
    if method != "fork":
        _may_start_anew(dataset, str(method))


def explain_unfit(dataset: Any, *, seeded: bool) -> str:
    """Why it should have no workers as it is, as far as a short look shows; empty where nothing
    speaks against it. That there are samples to divide is told apart."""
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
    """What was looked at, by its id, and how much may be."""

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
        for number, one in enumerate(value[:BREADTH]):
            _look_inside(one, f"{name}[{number}]", depth - 1, seen, wrong)
    elif depth and isinstance(value, dict):
        for key in list(value)[:BREADTH]:
            _look_inside(value[key], f"{name}[{key!r}]", depth - 1, seen, wrong)
    elif depth and not isinstance(value, (type, types.ModuleType, types.FunctionType)):
        for key, one in list(getattr(value, "__dict__", {}).items())[:BREADTH]:
            _look_inside(one, f"{name}.{key}", depth - 1, seen, wrong)


def _explain_process_bound(value: Any) -> str:
    """What ties it to this process, and what to do about that; empty where nothing does."""
    kind = type(value)
    if isinstance(value, types.GeneratorType):
        return "is a generator, all of which each worker would go through: keep what it gives"
    real = isinstance(value, io.IOBase) and not isinstance(value, (io.BytesIO, io.StringIO))
    if real and not value.closed and value.readable():
        return f"is an open file, whose place all workers would share: {OWN}"
    package = kind.__module__.partition(".")[0]
    if package in ALONE:
        return f"is an open {package} {kind.__name__}, which survives no fork: {OWN}"
    if package == "cupy" or _device_type(value) not in ("cpu", "meta"):
        return "lies on a GPU, which survives no fork: keep it on the CPU"
    return ""


def _device_type(value: Any) -> str:
    """What kind of device it lies on. Nothing of the job's own is called to learn it."""
    if isinstance(value, sys.modules["torch"].Tensor):
        return str(value.device.type)
    return str(getattr(vars(type(value)).get("device"), "type", "cpu"))


def _explain_shared_generator(value: Any) -> str:
    """Why each worker's copy of it would draw the same; empty where none would. The generators that
    PyTorch, NumPy and Python have for everybody are seeded anew in each worker."""
    kind = type(value)
    drawing = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
    python = isinstance(value, random.Random) and not isinstance(value, random.SystemRandom)
    if not python and drawing not in GENERATORS:
        return ""
    return (
        f"is a random generator of its own ({drawing}), of which each worker would have a copy "
        "that draws the same: seed it in worker_init_fn, or draw from torch itself"
    )


def _room() -> None:
    try:
        free = os.statvfs("/dev/shm")
    except OSError:
        return
    if free.f_bavail * free.f_frsize <= SMALL_BYTES:
        raise DeclinedError(
            f"/dev/shm, where workers leave batches, has {free.f_bavail * free.f_frsize >> 20} MiB "
            "free (in a container: --ipc=host or --shm-size)"
        )


class _Nowhere:
    """Takes what is written, and keeps nothing."""

    def write(self, data: Any) -> int:
        return len(data)


def _may_start_anew(dataset: Any, method: str) -> None:
    """Workers that are no copies import the script, and get the dataset pickled."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    try:
        guarded = main is not None and "__main__" in Path(main).read_text("utf-8", "replace")
    except OSError:
        guarded = False
    if not guarded:
        raise DeclinedError(
            f"workers are started by {method}, and would run the script: it has no `if __name__ == "
            '"__main__":`'
        )
    try:
        pickle.Pickler(_Nowhere()).dump(dataset)
    except Exception as error:  # whatever its classes raise
        raise DeclinedError(f"the dataset cannot be pickled for workers: {error}") from error
