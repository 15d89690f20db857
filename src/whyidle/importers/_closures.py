"""Optimizers that are given a closure: the training pass inside their step is no update.

``optimizer.step(closure)`` runs forward and backward within the span of the step. Lightning gives
one to every optimizer, LBFGS needs one. Such a span is taken to begin where the last backward pass
inside it ends; the passes themselves are recorded as ever.
"""

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
    """The same events, updates without the passes inside them. In a trace a backward pass may run
    on a thread of its own; a watched process records it on the thread that asked for it
    (``by_thread``)."""
    updates, passes = (_is_named(events.name, names, what) for what in (_UPDATE, _BACKWARD))
    start = events.start
    for thread in np.unique(events.thread[updates]) if by_thread else (None,):
        mine = events.thread == thread if by_thread else np.ones(len(events), dtype=bool)
        start = _span_begins(start, events.end, updates & mine, passes & mine)
    return events if start is events.start else replace(events, start=start).join()


def _span_begins(
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    updates: NDArray[np.bool_],
    passes: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """The starts of all spans, those of ``updates`` no earlier than the end of the last of
    ``passes`` that lies within them; all ns, masks over the spans."""
    rows, backward = np.flatnonzero(updates), np.flatnonzero(passes)
    if not len(rows) or not len(backward):
        return start
    backward = backward[np.argsort(end[backward], kind="stable")]
    last = np.searchsorted(end[backward], end[rows], side="right") - 1
    inner = backward[np.maximum(last, 0)]
    inside = (last >= 0) & (start[inner] >= start[rows])
    moved = start.copy()
    moved[rows[inside]] = end[inner[inside]]
    return moved


def _is_named(
    name: NDArray[np.int32], names: Sequence[str], pattern: re.Pattern[str]
) -> NDArray[np.bool_]:
    """Which spans have a name that matches."""
    return np.isin(name, [i for i, text in enumerate(names) if pattern.search(text)])
