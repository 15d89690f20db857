"""The DataLoader's own settings, given to it as if the script had."""

from __future__ import annotations

import inspect
import multiprocessing
from typing import Any

from . import (
    NO_FORM,
    DeclinedError,
    Hand,
    _kept_workers,
    _prefetch,
    _resizing,
    _starting,
)
from ._forking import may_have_several_workers, may_start_workers

ARGUMENTS = {
    "loader.workers": "num_workers",
    "loader.persistent_workers": "persistent_workers",
    "loader.prefetch_factor": "prefetch_factor",
    "loader.pin_memory": "pin_memory",
}
UNSET = {"num_workers": 0, "persistent_workers": False, "pin_memory": False}


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """Have every loader that is set as the diagnosed one was made with other settings."""
    from torch.utils.data import DataLoader

    asked = _asked(hand, edits)
    others = {*ARGUMENTS, *_starting.KNOBS, _prefetch.KNOB, _resizing.KNOB}
    hand.decline([knob for knob in edits if knob not in others], NO_FORM)
    if edits.get(_prefetch.KNOB):
        _prefetch.turn(hand)
    if edits.get(_resizing.KNOB):
        _resizing.turn(hand, edits[_resizing.KNOB])
    if not asked:
        return
    ours = _kept_workers.turn(hand) if asked.get(_kept_workers.KNOB) else None
    signature = inspect.signature(DataLoader.__init__)

    def make(original: Any) -> Any:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            try:
                bound = signature.bind(self, *args, **kwargs).arguments
            except TypeError:  # the script's own mistake, which PyTorch tells better
                original(self, *args, **kwargs)
                return
            told = hand.contained(asked, _told, hand, asked, bound)
            if not told or not _made(hand, told, bound, original):
                original(self, *args, **kwargs)
                told = {}
            if ours is not None:
                changed = _kept_workers.KNOB in told
                hand.contained([_kept_workers.KNOB], ours.add_loader, self, changed)

        return init

    hand.replace_making(DataLoader, make)


def _made(hand: Hand, told: dict[str, Any], bound: dict[str, Any], original: Any) -> bool:
    """Make a loader as it is told to be; whether PyTorch makes it so."""
    named = _named(told, bound)
    bound |= bound.pop("kwargs", {})
    try:
        original(**{**bound, **named})
    except (ValueError, RuntimeError, TypeError) as error:
        hand.decline(told, f"the DataLoader refuses: {error}")
        return False
    hand.took(*told)
    return True


def _asked(hand: Hand, edits: dict[str, Any]) -> dict[str, Any]:
    """What a loader that is made may be made with."""
    known = (*ARGUMENTS, *_starting.KNOBS)
    asked = {knob: value for knob, value in edits.items() if knob in known}
    if why := _starting.unknown(asked):
        hand.decline([_starting.AFFINITY], why)
        del asked[_starting.AFFINITY]
    return asked


def _told(hand: Hand, asked: dict[str, Any], bound: dict[str, Any]) -> dict[str, Any]:
    """Which knobs to turn for a loader that is about to be made; none where it is another one,
    or must not be touched."""
    try:
        told = _changed(hand, asked, bound)
    except DeclinedError as reason:
        hand.decline(asked, str(reason))
        return {}
    return {
        knob: value
        for knob, value in told.items()
        if knob not in ARGUMENTS or bound.get(ARGUMENTS[knob], UNSET.get(ARGUMENTS[knob])) != value
    }


def _changed(hand: Hand, asked: dict[str, Any], bound: dict[str, Any]) -> dict[str, Any]:
    workers = bound.get("num_workers", 0)
    was = hand.was.get("loader.workers")
    if "loader.workers" in asked and was is not None and workers != was:
        hand.waits(asked, f"no DataLoader was made with num_workers={was}, which it replaces")
        return {}
    if multiprocessing.current_process().daemon:  # a loader inside a worker cannot have workers
        return {}
    told = dict(asked)
    later = told.get("loader.workers", workers)
    if not later:
        for knob in ("loader.persistent_workers", "loader.prefetch_factor", *_starting.KNOBS):
            told.pop(knob, None)
    if told.get("loader.pin_memory") and (why := _no_pinning(later)):
        hand.decline(["loader.pin_memory"], why)
        del told["loader.pin_memory"]
    if not workers and later:
        if _only_one_batch(bound):
            hand.waits(asked, "each pass has one batch only, so there is nothing to load ahead")
            return {}
        may_start_workers(bound["dataset"], bound.get("multiprocessing_context"))
    if workers <= 1 < later:
        seeded = bound.get("worker_init_fn") is not None
        may_have_several_workers(bound["dataset"], seeded=seeded)
    return told


def _only_one_batch(bound: dict[str, Any]) -> bool:
    """Whether a loader has one batch at most; not where it does not tell."""
    size, batches = bound.get("batch_size", 1), bound.get("batch_sampler")
    try:
        return len(batches) <= 1 if batches is not None else len(bound["dataset"]) <= (size or 1)
    except (TypeError, NotImplementedError):
        return False


def _no_pinning(workers: int) -> str:
    """Why memory should not be pinned; empty where it may be."""
    if not _accelerated():
        return "there is no accelerator to copy to"
    if not workers:
        return "without workers the training loop itself would pin, and wait for it"
    return ""


def _accelerated() -> bool:
    """Whether there is a device that copies from pinned memory: PyTorch pins none for MPS."""
    import torch

    if torch.cuda.is_available() or getattr(torch, "xpu", torch.cuda).is_available():
        return True
    any_kind = getattr(torch, "accelerator", None)
    if any_kind is None or not any_kind.is_available():
        return False
    return any_kind.current_accelerator().type != "mps"


def _named(told: dict[str, Any], bound: dict[str, Any]) -> dict[str, Any]:
    """The arguments to make it with."""
    named = {ARGUMENTS[knob]: value for knob, value in told.items() if knob in ARGUMENTS}
    if any(told.get(knob) for knob in _starting.KNOBS):
        named["worker_init_fn"] = _starting.starter(told, bound.get("worker_init_fn"))
    return named
