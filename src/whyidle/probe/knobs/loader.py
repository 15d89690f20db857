"""The DataLoader's own settings, given to it as if the script had."""

from __future__ import annotations

import inspect
import multiprocessing
from typing import Any

from . import (
    NO_FORM,
    DeclinedError,
    KnobSession,
    _batch_resizing,
    _device_prefetch,
    _persistent_workers,
    _worker_start,
)
from ._fork_safety import may_have_several_workers, may_start_workers

ARGUMENTS = {
    "loader.workers": "num_workers",
    "loader.persistent_workers": "persistent_workers",
    "loader.prefetch_factor": "prefetch_factor",
    "loader.pin_memory": "pin_memory",
}
UNSET = {"num_workers": 0, "persistent_workers": False, "pin_memory": False}


def apply(hand: KnobSession, edits: dict[str, Any]) -> None:
    """Have every loader that is set as the diagnosed one was made with other settings."""
    from torch.utils.data import DataLoader

    asked = _requested_arguments(hand, edits)
    others = {*ARGUMENTS, *_worker_start.KNOBS, _device_prefetch.KNOB, _batch_resizing.KNOB}
    hand.decline_knobs([knob for knob in edits if knob not in others], NO_FORM)
    if edits.get(_device_prefetch.KNOB):
        _device_prefetch.turn(hand)
    if edits.get(_batch_resizing.KNOB):
        _batch_resizing.turn(hand, edits[_batch_resizing.KNOB])
    if not asked:
        return
    ours = _persistent_workers.turn(hand) if asked.get(_persistent_workers.KNOB) else None
    signature = inspect.signature(DataLoader.__init__)

    def make(original: Any) -> Any:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            try:
                bound = signature.bind(self, *args, **kwargs).arguments
            except TypeError:  # the script's own mistake, which PyTorch tells better
                original(self, *args, **kwargs)
                return
            told = hand.run_contained(asked, _knobs_for_loader, hand, asked, bound)
            if not told or not _make_loader(hand, told, bound, original):
                original(self, *args, **kwargs)
                told = {}
            if ours is not None:
                changed = _persistent_workers.KNOB in told
                hand.run_contained([_persistent_workers.KNOB], ours.add_loader, self, changed)

        return init

    hand.replace_making(DataLoader, make)


def _make_loader(
    hand: KnobSession, told: dict[str, Any], bound: dict[str, Any], original: Any
) -> bool:
    """Make a loader as it is told to be; whether PyTorch makes it so."""
    named = _loader_arguments(told, bound)
    bound |= bound.pop("kwargs", {})
    try:
        original(**{**bound, **named})
    except (ValueError, RuntimeError, TypeError) as error:
        hand.decline_knobs(told, f"the DataLoader refuses: {error}")
        return False
    hand.record_applied(*told)
    return True


def _requested_arguments(hand: KnobSession, edits: dict[str, Any]) -> dict[str, Any]:
    """What a loader that is made may be made with."""
    known = (*ARGUMENTS, *_worker_start.KNOBS)
    asked = {knob: value for knob, value in edits.items() if knob in known}
    if why := _worker_start.explain_unknown_cores(asked):
        hand.decline_knobs([_worker_start.AFFINITY], why)
        del asked[_worker_start.AFFINITY]
    return asked


def _knobs_for_loader(
    hand: KnobSession, asked: dict[str, Any], bound: dict[str, Any]
) -> dict[str, Any]:
    """Which knobs to turn for a loader that is about to be made; none where it is another one,
    or must not be touched."""
    try:
        told = _changed_arguments(hand, asked, bound)
    except DeclinedError as reason:
        hand.decline_knobs(asked, str(reason))
        return {}
    return {
        knob: value
        for knob, value in told.items()
        if knob not in ARGUMENTS or bound.get(ARGUMENTS[knob], UNSET.get(ARGUMENTS[knob])) != value
    }


def _changed_arguments(
    hand: KnobSession, asked: dict[str, Any], bound: dict[str, Any]
) -> dict[str, Any]:
    workers = bound.get("num_workers", 0)
    was = hand.was.get("loader.workers")
    if "loader.workers" in asked and was is not None and workers != was:
        hand.wait_for(asked, f"no DataLoader was made with num_workers={was}, which it replaces")
        return {}
    if multiprocessing.current_process().daemon:  # a loader inside a worker cannot have workers
        return {}
    told = dict(asked)
    later = told.get("loader.workers", workers)
    if not later:
        for knob in ("loader.persistent_workers", "loader.prefetch_factor", *_worker_start.KNOBS):
            told.pop(knob, None)
    if told.get("loader.pin_memory") and (why := _no_pinning(later)):
        hand.decline_knobs(["loader.pin_memory"], why)
        del told["loader.pin_memory"]
    if not workers and later:
        if _only_one_batch(bound):
            hand.wait_for(asked, "each pass has one batch only, so there is nothing to load ahead")
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
    if not _has_pinning_device():
        return "there is no accelerator to copy to"
    if not workers:
        return "without workers the training loop itself would pin, and wait for it"
    return ""


def _has_pinning_device() -> bool:
    """Whether there is a device that copies from pinned memory: PyTorch pins none for MPS."""
    import torch

    if torch.cuda.is_available() or getattr(torch, "xpu", torch.cuda).is_available():
        return True
    any_kind = getattr(torch, "accelerator", None)
    if any_kind is None or not any_kind.is_available():
        return False
    return any_kind.current_accelerator().type != "mps"


def _loader_arguments(told: dict[str, Any], bound: dict[str, Any]) -> dict[str, Any]:
    """The arguments to make it with."""
    named = {ARGUMENTS[knob]: value for knob, value in told.items() if knob in ARGUMENTS}
    if any(told.get(knob) for knob in _worker_start.KNOBS):
        named["worker_init_fn"] = _worker_start.make_worker_init(told, bound.get("worker_init_fn"))
    return named
