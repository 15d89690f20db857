"""Reads the facts of loaders and loader workers, once each."""

from __future__ import annotations

import os
import sys
from typing import Any

from ...core.cpu_cores import usable_cores
from ...core.own_files import FOLDER
from ...core.recorder import clock_ns, process_start_ns
from ...knobs._fork_safety import explain_unfit
from .transform_chains import find_chains

UNFIT = "_whyidle_unfit"
MOST_WORKERS = 1_000
"""most recorded workers of one command: each writes four or five files, loaders start new workers
for every epoch, and the number of files on a disk is limited"""


def describe_loader(loader: Any) -> dict[str, Any]:
    """Return a loader's settings, the code it runs, and the line that requested its iterator."""
    dataset = type(_innermost_dataset(loader.dataset))
    making = next(
        (place for name in ("__getitems__", "__getitem__", "__iter__")
         if (place := _function_place(getattr(dataset, name, None)))),
        None,
    )  # fmt: skip
    return {
        "workers": loader.num_workers,
        "batch_size": loader.batch_size,
        "prefetch": loader.prefetch_factor,
        "pinned": bool(loader.pin_memory),
        "persistent": bool(loader.persistent_workers),
        "transforms": _holds_chain(loader.dataset),
        "iterable": bool(loader._dataset_kind),
        "unfit": _explain_unfit(loader),
        "batches": _epoch_length(loader),
        "making": making,
        "collating": _function_place(loader.collate_fn),
        "asked": _calling_line(),
    }


def _explain_unfit(loader: Any) -> str:
    """Why workers should not load a loader's dataset. Checked before the first batch only, as each
    worker itself opens what is opened later."""
    known = vars(loader).get(UNFIT)
    if known is not None or loader.num_workers:
        return known or ""
    try:
        why = explain_unfit(loader.dataset, seeded=loader.worker_init_fn is not None)
    except Exception:  # the other facts are still recorded
        why = ""
    vars(loader)[UNFIT] = why
    return why


def _holds_chain(dataset: Any) -> bool | None:
    """Whether a dataset holds a chain of transforms; None if an object in it, such as a
    proxy, cannot be inspected."""
    try:
        return any(True for _ in find_chains(dataset))
    except Exception:  # the other facts are still recorded
        return None


def _epoch_length(loader: Any) -> int | None:
    """Number of batches in an epoch, if only the dataset has to be asked: a sampler of the user may
    have to draw all of them."""
    from torch.utils.data import sampler
    from torch.utils.data.distributed import DistributedSampler

    own = {getattr(sampler, name) for name in sampler.__all__} | {DistributedSampler, type(None)}
    if loader._dataset_kind or not {type(loader.sampler), type(loader.batch_sampler)} <= own:
        return None
    try:
        return len(loader)
    except Exception:  # the other facts are still recorded
        return None


def _innermost_dataset(dataset: Any) -> Any:
    """The dataset inside PyTorch's own wrappers (``Subset``, ``ConcatDataset``)."""
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


def _function_place(function: Any) -> str | None:
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    return f"{code.co_filename}({code.co_firstlineno}): {code.co_name}"


def _calling_line() -> str | None:
    """The first line outside the framework and the probe that requested the iterator."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(FOLDER) and f"torch{os.sep}utils{os.sep}data" not in name:
            return f"{name}({frame.f_lineno}): {frame.f_code.co_name}"
        frame = frame.f_back  # type: ignore[assignment]
    return None


def process_limits() -> dict[str, Any]:
    """Return the cores and threads that the training process may use."""
    import torch

    return {"cores": usable_cores(), "threads": torch.get_num_threads()}


def has_too_many_workers(folder: str) -> bool:
    """Whether ``MOST_WORKERS`` workers have recorded."""
    count = sum(name.endswith(".worker.json") for name in os.listdir(folder))
    return count >= MOST_WORKERS


def describe_worker(number: int) -> dict[str, Any]:
    """Return the facts of a loader worker."""
    import torch

    return {
        "parent": os.getppid(),
        "worker": number,
        "started": process_start_ns(),
        "first": clock_ns(),
        "threads": torch.get_num_threads(),
        "cores": usable_cores(),
    }
