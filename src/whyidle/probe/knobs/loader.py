"""Sets arguments of ``DataLoader`` as if the script had."""

from __future__ import annotations

import inspect
import multiprocessing
from typing import Any

from . import NO_FORM, DeclinedError, KnobSession, _persistent_workers, _worker_start
from ._fork_safety import check_several_workers, check_worker_start

ARGUMENTS = {
    "loader.workers": "num_workers",
    "loader.persistent_workers": "persistent_workers",
    "loader.prefetch_factor": "prefetch_factor",
    "loader.pin_memory": "pin_memory",
}
UNSET = {"num_workers": 0, "persistent_workers": False, "pin_memory": False}


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Change the arguments of every loader that has the settings of the diagnosed one."""
    from torch.utils.data import DataLoader

    requested = _requested_arguments(session, edits)
    others = {*ARGUMENTS, *_worker_start.KNOBS}
    session.decline_knobs([knob for knob in edits if knob not in others], NO_FORM)
    if not requested:
        return
    ours = (
        _persistent_workers.check_workers(session)
        if requested.get(_persistent_workers.KNOB)
        else None
    )
    signature = inspect.signature(DataLoader.__init__)

    def make(original: Any) -> Any:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            try:
                bound = signature.bind(self, *args, **kwargs).arguments
            except TypeError:  # the script's own mistake, which PyTorch reports better
                original(self, *args, **kwargs)
                return
            changes = session.run_contained(requested, _knobs_for_loader, session, requested, bound)
            if not changes or not _make_loader(session, changes, bound, original):
                original(self, *args, **kwargs)
                changes = {}
            if ours is not None:
                changed = _persistent_workers.KNOB in changes
                session.run_contained([_persistent_workers.KNOB], ours.add_loader, self, changed)

        return init

    session.wrap_constructor(DataLoader, make)


def _make_loader(
    session: KnobSession, changes: dict[str, Any], bound: dict[str, Any], original: Any
) -> bool:
    """Create a loader with the changed arguments; return whether PyTorch accepts them."""
    named = _loader_arguments(changes, bound)
    bound |= bound.pop("kwargs", {})
    try:
        original(**{**bound, **named})
    except (ValueError, RuntimeError, TypeError) as error:
        session.decline_knobs(changes, f"the DataLoader refuses: {error}")
        return False
    session.record_applied(*changes)
    return True


def _requested_arguments(session: KnobSession, edits: dict[str, Any]) -> dict[str, Any]:
    """The knobs that change a loader's arguments."""
    known = (*ARGUMENTS, *_worker_start.KNOBS)
    requested = {knob: value for knob, value in edits.items() if knob in known}
    if why := _worker_start.explain_unknown_cores(requested):
        session.decline_knobs([_worker_start.AFFINITY], why)
        del requested[_worker_start.AFFINITY]
    return requested


def _knobs_for_loader(
    session: KnobSession, requested: dict[str, Any], bound: dict[str, Any]
) -> dict[str, Any]:
    """The knobs to apply to a loader that is being created; none if it is another loader or must
    stay unchanged."""
    try:
        changes = _changed_arguments(session, requested, bound)
    except DeclinedError as reason:
        session.decline_knobs(requested, str(reason))
        return {}
    return {
        knob: value
        for knob, value in changes.items()
        if knob not in ARGUMENTS or bound.get(ARGUMENTS[knob], UNSET.get(ARGUMENTS[knob])) != value
    }


def _changed_arguments(
    session: KnobSession, requested: dict[str, Any], bound: dict[str, Any]
) -> dict[str, Any]:
    workers = bound.get("num_workers", 0)
    was = session.was.get("loader.workers")
    if "loader.workers" in requested and was is not None and workers != was:
        session.wait_for(
            requested, f"no DataLoader was made with num_workers={was}, which it replaces"
        )
        return {}
    if multiprocessing.current_process().daemon:  # a loader inside a worker cannot have workers
        return {}
    changes = dict(requested)
    later = changes.get("loader.workers", workers)
    if not later:
        for knob in ("loader.persistent_workers", "loader.prefetch_factor", *_worker_start.KNOBS):
            changes.pop(knob, None)
    if changes.get("loader.pin_memory") and (why := _no_pinning(later)):
        session.decline_knobs(["loader.pin_memory"], why)
        del changes["loader.pin_memory"]
    if not workers and later:
        if _only_one_batch(bound):
            session.wait_for(
                requested, "each epoch has one batch only, so there is nothing to load ahead"
            )
            return {}
        check_worker_start(bound["dataset"], bound.get("multiprocessing_context"))
    if workers <= 1 < later:
        seeded = bound.get("worker_init_fn") is not None
        check_several_workers(bound["dataset"], seeded=seeded)
    return changes


def _only_one_batch(bound: dict[str, Any]) -> bool:
    """Whether a loader has at most one batch; False if its length is unknown."""
    size, batches = bound.get("batch_size", 1), bound.get("batch_sampler")
    try:
        return len(batches) <= 1 if batches is not None else len(bound["dataset"]) <= (size or 1)
    except (TypeError, NotImplementedError):
        return False


def _no_pinning(workers: int) -> str:
    """Why memory should not be pinned; empty if it may be."""
    if not _has_pinning_device():
        return "there is no accelerator to copy to"
    if not workers:
        return "without workers the training loop itself would pin, and wait for it"
    return ""


def _has_pinning_device() -> bool:
    """Whether there is a device that copies from pinned memory: PyTorch pins no memory for MPS."""
    import torch

    if torch.cuda.is_available() or getattr(torch, "xpu", torch.cuda).is_available():
        return True
    any_kind = getattr(torch, "accelerator", None)
    if any_kind is None or not any_kind.is_available():
        return False
    return any_kind.current_accelerator().type != "mps"


def _loader_arguments(changes: dict[str, Any], bound: dict[str, Any]) -> dict[str, Any]:
    """The changed arguments of a loader."""
    named = {ARGUMENTS[knob]: value for knob, value in changes.items() if knob in ARGUMENTS}
    if any(changes.get(knob) for knob in _worker_start.KNOBS):
        named["worker_init_fn"] = _worker_start.make_worker_init(
            changes, bound.get("worker_init_fn")
        )
    return named
