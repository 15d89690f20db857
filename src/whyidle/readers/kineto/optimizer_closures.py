"""Optimizer steps with a closure: the training pass inside them is no update.
``optimizer.step(closure)`` runs forward and backward within the span of the step (Lightning always,
LBFGS by need). Such a span is set to begin where its last backward pass ends; the passes keep their
own spans."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from whyidle.model.timeline import HostEvents

_UPDATE = re.compile(r"^Optimizer\.step#")
_BACKWARD = re.compile(r"^(whyidle::backward$|autograd::engine::evaluate_function)")


def without_closures(
    events: HostEvents, names: Sequence[str], *, by_thread: bool = False
) -> HostEvents:
    """Return the events with updates that exclude the passes inside them, of any thread or only of
    the calling one (``by_thread``)."""
    updates, passes = (
        np.array([*(pattern.search(text) is not None for text in names), False])[events.name]
        for pattern in (_UPDATE, _BACKWARD)
    )
    start = events.start
    for thread in np.unique(events.thread[updates]) if by_thread else (None,):
        on_thread = events.thread == thread if by_thread else np.ones(len(events), dtype=bool)
        start = _span_begins(start, events.end, updates & on_thread, passes & on_thread)
    return events if start is events.start else replace(events, start=start).join()


def _span_begins(
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    updates: NDArray[np.bool_],
    passes: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Starts of all spans (ns), with updates after the last of ``passes`` inside them."""
    rows, backward = np.flatnonzero(updates), np.flatnonzero(passes)
    if not len(rows) or not len(backward):
        return start
    backward = backward[np.argsort(end[backward], kind="stable")]
    last = np.searchsorted(end[backward], end[rows], side="right") - 1
    inner = backward[np.maximum(last, 0)]
    inside = (last >= 0) & (start[inner] >= start[rows])
    if not inside.any():
        return start
    begins = start.copy()
    begins[rows[inside]] = end[inner[inside]]
    return begins
