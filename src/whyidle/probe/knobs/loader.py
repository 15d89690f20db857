"""Sets arguments of ``DataLoader`` as if the script had."""

from __future__ import annotations

import contextlib
import functools
import inspect
import multiprocessing
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any

from ..core import cpu_cores as cores
from . import NO_FORM, DeclinedError, KnobSession
from ._dataset_hash import NoHashError, hash_contents
from ._fork_safety import check_several_workers, check_worker_start

ARGUMENTS = {
    "loader.workers": "num_workers",
    "loader.persistent_workers": "persistent_workers",
    "loader.prefetch_factor": "prefetch_factor",
    "loader.pin_memory": "pin_memory",
}
UNSET = {"num_workers": 0, "persistent_workers": False, "pin_memory": False}
THREADS = "loader.worker_threads"
AFFINITY = "loader.full_affinity"
WORKER_START = (THREADS, AFFINITY)
PERSISTENT = "loader.persistent_workers"
CHANGED = "the loop changes what its workers load from (dataset, collate_fn or worker_init_fn)"


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Change the arguments of every loader that has the settings of the diagnosed one."""
    from torch.utils.data import DataLoader

    requested = _requested_arguments(session, edits)
    others = {*ARGUMENTS, *WORKER_START}
    session.decline_knobs([knob for knob in edits if knob not in others], NO_FORM)
    if not requested:
        return
    ours = check_workers(session) if requested.get(PERSISTENT) else None
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
                changed = PERSISTENT in changes
                session.run_contained([PERSISTENT], ours.add_loader, self, changed)

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
    known = (*ARGUMENTS, *WORKER_START)
    requested = {knob: value for knob, value in edits.items() if knob in known}
    if why := explain_unknown_cores(requested):
        session.decline_knobs([AFFINITY], why)
        del requested[AFFINITY]
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
        for knob in ("loader.persistent_workers", "loader.prefetch_factor", *WORKER_START):
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
    if any(changes.get(knob) for knob in WORKER_START):
        named["worker_init_fn"] = make_worker_init(changes, bound.get("worker_init_fn"))
    return named


def explain_unknown_cores(edits: dict[str, Any]) -> str:
    """Why the affinity of workers cannot be set; empty if it can."""
    if not edits.get(AFFINITY):
        return ""
    return "" if cores.given_cores() else "the cores that the command was given are not known here"


def make_worker_init(settings: dict[str, Any], then: Any) -> Any:
    """Return a ``worker_init_fn`` that applies the settings and then calls the script's own."""
    given = tuple(sorted(cores.given_cores() or ())) if settings.get(AFFINITY) else ()
    return functools.partial(_start_worker, settings.get(THREADS), given, then)


def _start_worker(threads: int | None, given: tuple[int, ...], then: Any, worker: int) -> Any:
    if given:
        with contextlib.suppress(OSError):  # the cores were taken away since
            os.sched_setaffinity(0, given)
    if threads is not None:
        _set_threads(int(threads))
    return then(worker) if then is not None else None


def _set_threads(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)
    vision: Any = sys.modules.get("cv2")
    if vision is not None:  # OpenCV has threads of its own; 0 means a single thread
        vision.setNumThreads(0 if threads == 1 else threads)


class KeptWorkers:
    """The persistent workers of the loaders that this knob gave them, as long as the script does
    not change what they load from: a persistent worker holds the dataset of the epoch in which it
    was started. If the loop draws new negatives into the dataset, sets its epoch or replaces its
    transform, or if the dataset has no hash, the next epoch starts new workers, the loader keeps
    none from then on, and the knob is withdrawn."""

    def __init__(self, session: KnobSession) -> None:
        self.session = session
        self.datasets: weakref.WeakSet[Any] = weakref.WeakSet()
        """their datasets: frameworks create loaders from the attributes of other loaders"""
        self.hashes: dict[int, bytes] = {}
        """of what workers load from, by the loader's id, as loaders may be pickled, copied or
        unhashable"""

    def add_loader(self, loader: Any, changed: bool) -> None:
        """Register a new loader; ``changed``: this knob made its workers persistent."""
        try:
            ours = changed or loader.dataset in self.datasets
            if changed:
                self.datasets.add(loader.dataset)
        except TypeError:  # a list, for example, has neither hash nor weak references
            ours = changed
        if ours and loader.persistent_workers:
            self.hashes[id(loader)] = b""
            weakref.finalize(loader, self.hashes.pop, id(loader), None).atexit = False

    def begin_epoch(self, loader: Any) -> None:
        """Check a loader before its iterator is created."""
        if id(loader) not in self.hashes or self.session.run_contained(
            [PERSISTENT], self._may_stay, loader
        ):
            return
        vars(loader)["persistent_workers"] = False  # PyTorch refuses to set it later
        loader._iterator = None  # PyTorch has no public way to end kept workers
        del self.hashes[id(loader)]

    def _may_stay(self, loader: Any) -> bool:
        was = self.hashes[id(loader)]
        try:
            now = self.hashes[id(loader)] = hash_contents(
                loader.dataset, loader.collate_fn, loader.worker_init_fn, skip_shared=True
            )
        except NoHashError as reason:
            why = f"it is unknown whether the loop changes its dataset: {reason}"
            self.session.release_knob(PERSISTENT, why)
            return False
        if loader._iterator is None:
            return True
        if was == now:
            _draw_seed(loader)
            return True
        self.session.release_knob(PERSISTENT, CHANGED)
        return False


def _draw_seed(loader: Any) -> None:
    """Draw what starting workers draws from the job's generator, which shuffles next, so that the
    job's random numbers stay the same."""
    import torch

    torch.empty((), dtype=torch.int64).random_(generator=loader.generator)


def check_workers(session: KnobSession) -> KeptWorkers:
    """Check persistent workers whenever an epoch begins."""
    from torch.utils.data import DataLoader

    kept = KeptWorkers(session)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def iterate(self: Any) -> Any:
            kept.begin_epoch(self)
            return original(self)

        return iterate

    session.replace_function(DataLoader, "__iter__", make)
    return kept
