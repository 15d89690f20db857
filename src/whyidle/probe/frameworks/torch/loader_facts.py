"""What a loader, a loader worker and their surroundings say about themselves; read once each."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from ...core.cpu_cores import usable_cores
from ...core.own_files import FOLDER
from ...core.recorder import clock_ns
from ...knobs._fork_safety import explain_unfit
from .transform_chains import find_chains, has_order

UNFIT = "_whyidle_unfit"
MOST_WORKERS = 1_000
"""that record, of one command: each leaves four or five files, a loader makes new ones for every
epoch, and disks count files, too"""


def describe_loader(loader: Any) -> dict[str, Any]:
    """A loader's settings, the code it runs, and the line that asked for its iterator."""
    dataset = type(_innermost_dataset(loader.dataset))
    context = loader.multiprocessing_context
    making = next(
        (found for name in ("__getitems__", "__getitem__", "__iter__")
         if (found := _function_place(getattr(dataset, name, None)))),
        None,
    )  # fmt: skip
    return {
        "workers": loader.num_workers,
        "batch_size": loader.batch_size,
        "prefetch": loader.prefetch_factor,
        "pinned": bool(loader.pin_memory),
        "persistent": bool(loader.persistent_workers),
        "chained": _holds_chain(loader.dataset, has_order),
        "transforms": _holds_chain(loader.dataset, lambda _: True),
        "in_order": bool(getattr(loader, "in_order", True)),
        "iterable": bool(loader._dataset_kind),
        "unfit": _explain_unfit(loader),
        "dataset": f"{dataset.__module__}.{dataset.__qualname__}",
        "start": context.get_start_method() if context is not None else _default_start(),
        "sampler": type(loader.sampler).__name__,
        "batches": _epoch_length(loader),
        "making": making,
        "collating": _function_place(loader.collate_fn),
        "asked": _calling_line(),
    }


def _explain_unfit(loader: Any) -> str:
    """Why workers should not load its dataset; looked at before a loader's first batch only: what
    is opened later, each worker would open by itself."""
    known = vars(loader).get(UNFIT)
    if known is not None or loader.num_workers:
        return known or ""
    try:
        found = explain_unfit(loader.dataset, seeded=loader.worker_init_fn is not None)
    except Exception:  # all the rest is told without it
        found = ""
    vars(loader)[UNFIT] = found
    return found


def _holds_chain(dataset: Any, fits: Callable[[Any], bool]) -> bool | None:
    """Whether it holds a chain of transforms that fits; None where something that it holds stands
    for another object, and does not let itself be looked at."""
    try:
        return any(map(fits, find_chains(dataset)))
    except Exception:  # all the rest is told without it
        return None


def _epoch_length(loader: Any) -> int | None:
    """Of an epoch, where nobody but the dataset has to be asked: a sampler of the user's may have
    to draw them all."""
    from torch.utils.data import sampler
    from torch.utils.data.distributed import DistributedSampler

    own = {getattr(sampler, name) for name in sampler.__all__} | {DistributedSampler, type(None)}
    if loader._dataset_kind or not {type(loader.sampler), type(loader.batch_sampler)} <= own:
        return None
    try:
        return len(loader)
    except Exception:  # all the rest is told without it
        return None


def _innermost_dataset(dataset: Any) -> Any:
    """The dataset inside PyTorch's own wrappers (``Subset``, ``ConcatDataset``), which works."""
    for _ in range(4):
        if not type(dataset).__module__.startswith("torch.utils.data"):
            break
        inner = getattr(dataset, "dataset", None)
        several = getattr(dataset, "datasets", None)
        inner = several[0] if inner is None and isinstance(several, list) and several else inner
        if inner is None:
            break
        dataset = inner
    return dataset


def _default_start() -> str | None:
    import multiprocessing

    return multiprocessing.get_start_method(allow_none=True)


def _function_place(function: Any) -> str | None:
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    return f"{code.co_filename}({code.co_firstlineno}): {code.co_name}"


def _calling_line() -> str | None:
    """The first line outside the framework and the probe that asked for an iterator."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(FOLDER) and f"torch{os.sep}utils{os.sep}data" not in name:
            return f"{name}({frame.f_lineno}): {frame.f_code.co_name}"
        frame = frame.f_back  # type: ignore[assignment]
    return None


def process_limits() -> dict[str, Any]:
    """What the training process may use."""
    import torch

    return {"cores": usable_cores(), "threads": torch.get_num_threads()}


def has_too_many_workers(folder: str) -> bool:
    """Whether so many workers have recorded that one more would add files and nothing else."""
    told = sum(name.endswith(".worker.json") for name in os.listdir(folder))
    return told >= MOST_WORKERS


def describe_worker(number: int) -> dict[str, Any]:
    """What a loader worker says of itself."""
    import torch

    return {
        "parent": os.getppid(),
        "worker": number,
        "started": _process_start(),
        "first": clock_ns(),
        "threads": torch.get_num_threads(),
        "omp": os.environ.get("OMP_NUM_THREADS"),
        "cores": usable_cores(),
    }


def _process_start() -> int | None:
    """When this process began, by the clock of the records, to 10 ms; None if not told."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rsplit(b")", 1)[1].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        return clock_ns() - int(age * 1e9)
    except (OSError, ValueError, IndexError, AttributeError):
        return None
