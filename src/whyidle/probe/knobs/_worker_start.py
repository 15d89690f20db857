"""What a loader's worker does before its first batch, and before the script's own
``worker_init_fn``."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from typing import Any

from ..core import cpu_cores as cores

THREADS = "loader.worker_threads"
AFFINITY = "loader.full_affinity"
KNOBS = (THREADS, AFFINITY)


def explain_unknown_cores(edits: dict[str, Any]) -> str:
    """Why workers cannot be given the cores that were asked for; empty where they can."""
    if not edits.get(AFFINITY):
        return ""
    return "" if cores.given_cores() else "the cores that the command was given are not known here"


def make_worker_init(told: dict[str, Any], then: Any) -> Any:
    """The ``worker_init_fn`` that does what is ``told`` and ``then`` what the script asks for."""
    given = tuple(sorted(cores.given_cores() or ())) if told.get(AFFINITY) else ()
    return functools.partial(_start_worker, told.get(THREADS), given, then)


def _start_worker(threads: int | None, given: tuple[int, ...], then: Any, worker: int) -> Any:
    if given:
        with contextlib.suppress(OSError):  # taken away since: it works with those that it has
            os.sched_setaffinity(0, given)
    if threads is not None:
        _set_threads(int(threads))
    return then(worker) if then is not None else None


def _set_threads(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)
    vision: Any = sys.modules.get("cv2")
    if vision is not None:  # it has threads of its own; none of them is one, as it counts
        vision.setNumThreads(0 if threads == 1 else threads)
