"""The DataLoader's own settings, given to it as if the script had."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from . import DeclinedError, Hand

ARGUMENTS = {
    "loader.workers": "num_workers",
    "loader.persistent_workers": "persistent_workers",
    "loader.prefetch_factor": "prefetch_factor",
    "loader.pin_memory": "pin_memory",
}
ALONE = {"File": "h5py", "Environment": "lmdb", "Connection": "sqlite3"}
"""classes of open handles that do not survive a fork, and where they come from"""


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """Have every loader that is set as the diagnosed one was made with other settings."""
    from torch.utils.data import DataLoader

    unknown = [knob for knob in edits if knob not in (*ARGUMENTS, "loader.worker_threads")]
    if unknown:
        hand.decline(unknown, "it has no form that could be applied while the script runs")
    asked = {knob: value for knob, value in edits.items() if knob in ARGUMENTS}
    threads = edits.get("loader.worker_threads")
    signature = inspect.signature(DataLoader.__init__)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                bound = signature.bind(self, *args, **kwargs).arguments
                told = _changed(hand, asked, bound)
            except DeclinedError as reason:
                hand.decline(edits, str(reason))
                return original(self, *args, **kwargs)
            except TypeError:  # the script's own mistake, which PyTorch tells better
                return original(self, *args, **kwargs)
            bound.pop("self")
            bound |= bound.pop("kwargs", {})
            named = {ARGUMENTS[knob]: value for knob, value in told.items()}
            if threads is not None and {**bound, **named}.get("num_workers"):
                named["worker_init_fn"] = functools.partial(
                    _with_threads, int(threads), bound.get("worker_init_fn")
                )
                told["loader.worker_threads"] = threads
            result = original(self, **{**bound, **named})
            hand.took(*told)
            return result

        return init

    hand.replace(DataLoader, "__init__", make)


def _changed(hand: Hand, asked: dict[str, Any], bound: dict[str, Any]) -> dict[str, Any]:
    """Which knobs to turn for a loader that is about to be made; none where it is another one.
    Raises DeclinedError where it must not be touched."""
    workers = bound.get("num_workers", 0)
    was = hand.was.get("loader.workers")
    told = dict(asked)
    if "loader.workers" in told and was is not None and workers != was:
        return {}
    later = told.get("loader.workers", workers)
    if not later:
        told.pop("loader.persistent_workers", None)
        told.pop("loader.prefetch_factor", None)
    if not workers and later:
        _may_fork(bound["dataset"])
    return told


def _may_fork(dataset: Any) -> None:
    """Raises DeclinedError where workers would repeat samples, or break what is held open."""
    from torch.utils.data import IterableDataset

    if isinstance(dataset, IterableDataset):
        code = getattr(type(dataset).__iter__, "__code__", None)
        if code is None or "get_worker_info" not in code.co_names:
            raise DeclinedError(
                "the dataset is an IterableDataset that does not divide its samples among workers "
                "(torch.utils.data.get_worker_info): each would give all of them"
            )
    for name, value in getattr(dataset, "__dict__", {}).items():
        kind = type(value)
        if kind.__module__.partition(".")[0] == ALONE.get(kind.__name__):
            raise DeclinedError(
                f"dataset.{name} is an open {kind.__name__}, which survives no fork"
            )
        if getattr(value, "is_cuda", False):
            raise DeclinedError(f"dataset.{name} lies on a GPU, which survives no fork")


def _with_threads(threads: int, then: Callable[[int], Any] | None, worker: int) -> Any:
    """Runs in a worker, before its first batch."""
    import torch

    torch.set_num_threads(threads)
    return then(worker) if then is not None else None
