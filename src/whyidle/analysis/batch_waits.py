"""Calls of the DataLoader: how long each took, how much of it the device idled, what ran inside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.codes import is_among
from whyidle.analysis.intervals import union_of
from whyidle.analysis.step_scope import StepScope
from whyidle.model.roles import Role

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

HANDOFF_S = 50e-6
"""what taking a finished batch from a worker costs at least: the queue's round trip (36 to 50 us
in public traces of a small MLP recorded with stacks)"""
HANDOFF_CAREFUL_S = 100e-6
HANDOFF_BYTES_PER_S = 4.5e9
"""first touch of a batch that lies in memory shared with a worker: 19 MB take 4.2 ms longer than
in the process's own memory, measured with PyTorch 2.13 on a CPU"""
HANDOFF_CAREFUL_BYTES_PER_S = 2.3e9
"""the same, slowest seen: public ResNet-50 traces with and without workers differ by 2.4 to
8.3 ms per 19 MB in ``next`` and the copy to the device"""

TENSOR_S = 0.5e-3
"""what each tensor of a batch costs besides where a worker shares it by a descriptor, as PyTorch
does by default on Linux: as much in the worker as in the process that takes it. Medians of 0.45 to
0.77 ms until a ready batch of 1, 3 or 9 tensors was there; PyTorch 2.13, two virtual cores that
share one"""
TENSOR_CAREFUL_S = 0.8e-3


@dataclass(frozen=True, slots=True, eq=False)
class BatchWaits:
    """Calls of ``__next__`` in scope, on the threads that feed the device. ``seconds`` is how long
    each took, ``exposed`` how much of that the device idled for it, s."""

    rows: I64
    start: I64
    end: I64
    exposed: F64

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def durations_s(self) -> F64:
        """Length of each call, s."""
        return (self.end - self.start) / 1e9


def find_batch_waits(facts: StepScope, role: Role) -> BatchWaits:
    """Calls of a role: ``BATCH_INLINE`` or ``BATCH_FROM_WORKERS``."""
    host = facts.timeline.host
    rows = facts.rows_of(role)
    rows = rows[is_among(host.thread[rows], facts.host.drivers)]
    start, end = host.start[rows], host.end[rows]
    exposed = facts.time_of("loader").length_inside(start, end) / 1e9
    return BatchWaits(rows, start, end, exposed)


def handoff_s(facts: StepScope, batches: int) -> tuple[float, float]:
    """What a batch from a worker will cost the training process, s: (likely, careful)."""
    rows = facts.device_rows[facts.direction[facts.device_rows] == "h2d"]
    size = float(np.maximum(facts.device.size[rows], 0).sum()) / max(batches, 1)
    likely = HANDOFF_S + size / HANDOFF_BYTES_PER_S
    return likely, HANDOFF_CAREFUL_S + size / HANDOFF_CAREFUL_BYTES_PER_S


def tensors_s(facts: StepScope) -> tuple[float, float]:
    """What sharing the tensors of a batch would cost the training process, and a worker again, s:
    (likely, careful). Nothing where it is not told how many these are, and where a thread of their
    own takes them to pin them."""
    loading = facts.timeline.loading
    pinned = any(one.pinned for one in loading.loaders if not one.workers)
    count = 0 if pinned and not facts.on_cpu else loading.tensors or 0
    return count * TENSOR_S, count * TENSOR_CAREFUL_S


SURELY_LATE = 1.5
"""a call this many times longer than the slowest hand-off seen of so many bytes waited"""
UNUSUAL = 3.0
"""and so did one this many times longer than the quick ones of the same recording"""
QUICK = 10
"""percentile of calls taken as those that found their batch ready"""


def waited_for_worker(
    facts: StepScope, calls: BatchWaits, *, doubtful: bool = False
) -> NDArray[np.bool_]:
    """Which calls waited for a worker, rather than took over a batch that was ready; with
    ``doubtful`` those also that may have."""
    if not len(calls):
        return np.zeros(0, dtype=bool)
    likely, careful = handoff_s(facts, len(calls))
    if doubtful:
        return np.asarray(calls.durations_s > SURELY_LATE * likely)
    quick = max(float(np.percentile(calls.durations_s, QUICK)), likely)
    return np.asarray(calls.durations_s > min(SURELY_LATE * careful, UNUSUAL * quick))


def launches_inside(facts: StepScope, start: I64, end: I64) -> int:
    """How many kernels were launched during some windows."""
    calls = facts.launches.call[facts.kernels]
    times = facts.timeline.host.start[calls[calls >= 0]]
    return int(union_of(start, end).contains_times(times).sum())
