"""Sets threads and CPU affinity of loader workers, before the script's ``worker_init_fn``."""

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
