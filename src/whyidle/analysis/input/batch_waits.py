"""DataLoader calls: how long each took, how long the device idled for it, and what ran inside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whyidle.analysis.arrays import F64, I64, Mask
from whyidle.analysis.integer_codes import is_among
from whyidle.analysis.intervals import union_of
from whyidle.analysis.steps.step_scope import StepScope
from whyidle.model.roles import Role

HANDOFF_S = 50e-6
"""least cost of taking a finished batch from a worker: the queue's round trip (36 to 50 us in
public traces of a small MLP recorded with stacks)"""
HANDOFF_CAREFUL_S = 100e-6
HANDOFF_BYTES_PER_S = 4.5e9
"""first touch of a batch in shared memory: 19 MB take 4.2 ms longer (PyTorch 2.13 on a CPU)"""
HANDOFF_CAREFUL_BYTES_PER_S = 2.3e9
"""slowest measured rate: public ResNet-50 traces with and without workers differ by 2.4 to 8.3 ms
per 19 MB in ``next`` and the copy to the device"""

TENSOR_S = 0.5e-3
"""extra cost of each tensor that a worker shares by a file descriptor (PyTorch's default on Linux),
in the worker and again in the process that takes it. Medians were 0.45 to 0.77 ms for ready batches
of 1, 3 or 9 tensors (PyTorch 2.13, two virtual cores that share one)"""
TENSOR_CAREFUL_S = 0.8e-3


@dataclass(frozen=True, slots=True, eq=False)
class BatchWaits:
    """Calls of ``__next__`` in scope on driving threads; ``exposed`` is device idle time, s."""

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
    """Return the calls of a role: ``BATCH_INLINE`` or ``BATCH_FROM_WORKERS``."""
    host = facts.timeline.host
    rows = facts.rows_of(role)
    rows = rows[is_among(host.thread[rows], facts.host.drivers)]
    start, end = host.start[rows], host.end[rows]
    exposed = facts.time_of("loader").length_inside(start, end) / 1e9
    return BatchWaits(rows, start, end, exposed)


def handoff_s(facts: StepScope, batches: int) -> tuple[float, float]:
    """Return what a batch from a worker will cost the training process, s: (expected, at most)."""
    rows = facts.device_rows[facts.direction[facts.device_rows] == "h2d"]
    size = float(np.maximum(facts.device.size[rows], 0).sum()) / max(batches, 1)
    likely = HANDOFF_S + size / HANDOFF_BYTES_PER_S
    return likely, HANDOFF_CAREFUL_S + size / HANDOFF_CAREFUL_BYTES_PER_S


def tensors_s(facts: StepScope) -> tuple[float, float]:
    """Return the cost of a batch's shared tensors in each process, s: (expected, at most)."""
    loading = facts.timeline.loading
    pinned = any(loader.pinned for loader in loading.loaders if not loader.workers)
    count = 0 if pinned and not facts.on_cpu else loading.tensors or 0
    return count * TENSOR_S, count * TENSOR_CAREFUL_S


SURELY_LATE = 1.5
"""a call this many times longer than the slowest measured hand-off of its bytes waited"""
UNUSUAL = 3.0
"""as did a call this many times longer than the quick ones of the same recording"""
QUICK = 10
"""percentile of calls that counts as finding the batch ready"""


def waited_for_worker(facts: StepScope, calls: BatchWaits, *, doubtful: bool = False) -> Mask:
    """Return which calls waited for a worker; with ``doubtful`` also those that may have."""
    if not len(calls):
        return np.zeros(0, dtype=bool)
    likely, careful = handoff_s(facts, len(calls))
    if doubtful:
        return np.asarray(calls.durations_s > SURELY_LATE * likely)
    quick = max(float(np.percentile(calls.durations_s, QUICK)), likely)
    return np.asarray(calls.durations_s > min(SURELY_LATE * careful, UNUSUAL * quick))


def launches_inside(facts: StepScope, start: I64, end: I64) -> int:
    """Return how many kernels were launched during the windows."""
    calls = facts.launches.call[facts.kernels]
    times = facts.timeline.host.start[calls[calls >= 0]]
    return int(union_of(start, end).contains_times(times).sum())
