"""The batch: how large it is, where shapes prove it, and what a larger one would cost (P6).

One recording is one batch size. A kernel's time is taken as a part that does not depend on the
batch (latency, tails, too few blocks to fill the device) and a part that does: the time that its
bytes or FLOPs take at some share of the device's peak. With ``k`` times the batch only the second
part grows ``k``-fold; then the step is replayed with those kernel times against the recorded
launches, whose number does not depend on the batch.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.batch_waits import find_batch_waits
from whyidle.analysis.codes import is_among, used_codes
from whyidle.analysis.facts import Facts
from whyidle.analysis.flops import shapes_of
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.step_replay import combine_changes
from whyidle.model.roles import Role

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

REACHED: Final = (0.25, 0.6, 1.0)
"""share of the peak at which more work of the same kind runs: careful, expected, hopeful"""
FULL: Final = 0.7
"""from this estimated occupancy on a kernel fills the device: its whole time grows with the batch
in the careful case"""
HOST_SPREAD: Final = 0.05
"""how far the host's own time differs between two runs of one program"""
KNOWN: Final = 0.8
"""share of kernel time whose work must be known"""
FIXED: Final = ("optimizer",)
"""work that does not grow with the batch"""


@dataclass(frozen=True, slots=True)
class LargerBatch:
    """The step with ``times`` the batch: seconds expected, at best and at worst, and samples per
    second relative to now."""

    times: float
    step_s: float
    best_s: float
    worst_s: float
    now_s: float

    def relative_throughput(self, seconds: float) -> float:
        """Samples per second relative to now, for one of the step times."""
        return self.times * self.now_s / seconds


def predict_larger_batch(facts: Facts, times: float) -> LargerBatch | None:
    """Predict the step with ``times`` the batch; None where the work of the kernels is unknown.

    Loading, copies and collectives are not modelled: in the worst case their share of the step
    grows with the batch, and nothing hides it.
    """
    slopes = _batch_slopes(facts)
    return None if slopes is None else _grown(facts, times, slopes)


def bound_larger_batch(facts: Facts, times: float) -> LargerBatch:
    """The same where the work of the kernels is unknown: at worst all but the optimizer's take so
    many times as long, at best as long as now."""
    rows = facts.device_rows
    every = np.ones(len(facts.device))
    every[rows] = np.where(np.isin(facts.group[rows], FIXED), 0.0, 1.0)
    return _grown(facts, times, (every, every / 2, np.zeros_like(every)))


def _grown(facts: Facts, times: float, slopes: tuple[F64, F64, F64]) -> LargerBatch:
    replay, steps = facts.replay, max(facts.step_count, 1)
    outside = replay.base_ns - facts.scope.total
    # a host slowed by a recording would hide device work that it does not hide in the job
    alone = facts.launching.without_recording(1.0 if facts.launching.is_cost_measured else 0.0)
    now_s = (replay.replayed_length(alone) - outside) / steps / 1e9
    seconds = [
        (
            replay.replayed_length(
                combine_changes(replay.reduce_host_time(facts.scope, spread), alone),
                factor=1.0 + (times - 1.0) * slope,
            )
            - outside
        )
        / steps
        / 1e9
        for slope, spread in zip(slopes, (-HOST_SPREAD, 0.0, HOST_SPREAD), strict=True)
    ]
    rest = (
        facts.bucket_share("input")
        + facts.bucket_share("transfer")
        + facts.bucket_share("communication")
    )
    worst = max(seconds) + max(times - 1.0, 0.0) * rest * now_s
    return LargerBatch(times, seconds[1], min(seconds), worst, now_s)


def _batch_slopes(facts: Facts) -> tuple[F64, F64, F64] | None:
    """Per device event, the share of its time that grows with the batch."""
    rows, peak = facts.device_rows, facts.peak
    seconds = np.maximum(facts.durations_s(rows), 1e-9)
    if peak is None or not len(rows):
        return None
    rates = np.array([_work_rate(facts, int(row)) for row in rows])
    ideal = np.fmax(facts.work.bytes[rows] / peak.bandwidth, facts.work.flops[rows] / rates)
    fixed = np.isin(facts.group[rows], FIXED)
    known = ~np.isnan(ideal) | fixed
    if float(seconds[known].sum()) < KNOWN * float(seconds.sum()):
        return None
    full = facts.device.occupancy[rows] >= FULL
    slopes = []
    for reached in REACHED:
        share = np.minimum(np.where(known, ideal, np.inf) / reached / seconds, 1.0)
        if reached == REACHED[0]:
            share = np.where(full, 1.0, share)
        every = np.ones(len(facts.device))
        every[rows] = np.where(fixed, 0.0, share)
        slopes.append(every)
    return slopes[0], slopes[1], slopes[2]


def _work_rate(facts: Facts, row: int) -> float:
    """FLOP/s that a kernel works against."""
    peak = facts.peak
    if peak is None:
        return np.nan
    precision = str(facts.precision[row]) or None
    return peak.peak_flops(precision, tensor=bool(facts.uses_tensor_cores[row])) or peak.fp32


# -- its size -------------------------------------------------------------------------------


def find_batch_size(facts: Facts) -> int | None:
    """Samples per step, where operators of at least two kinds agree on the first dimension of
    their input, and some of them run once per step (else a step is several forward passes); None
    where that is not so, or shapes are not recorded."""
    host, timeline = facts.timeline.host, facts.timeline
    ops = facts.ops[0]
    known = [name for name in used_codes(host.name[ops]) if timeline.operator(int(name)).batch]
    rows = ops[is_among(host.name[ops], known)]
    rows = rows[facts.host_scope.contains_times(host.start[rows]) & (host.detail[rows] >= 0)]
    calls = Counter((int(host.name[row]), int(host.detail[row])) for row in rows)
    told: dict[int, set[int]] = {}
    passes: Counter[tuple[int, str]] = Counter()
    for (name, detail), count in calls.items():
        shapes = shapes_of(timeline, detail)
        told.setdefault(name, set()).add(
            _first_dimension(shapes, *(timeline.operator(name).batch or (0, 0)))
        )
        passes[name, str(shapes)] += count
    found = set().union(*told.values()) if told else set()
    alone = len(told) >= 2 and len(found) == 1 and -1 not in found
    return found.pop() if alone and min(passes.values()) == facts.step_count else None


def backward_passes(facts: Facts) -> int | None:
    """Backward passes of a step, as a watched run records them; None where none is recorded."""
    rows = facts.rows_of(Role.BACKWARD)
    count = int(facts.host_scope.contains_times(facts.timeline.host.start[rows]).sum())
    return max(round(count / facts.step_count), 1) if count and facts.step_count else None


def _first_dimension(shapes: list[object], position: int, rank: int) -> int:
    """The first dimension of one input; -1 where it is not of that rank."""
    shape = shapes[position] if len(shapes) > position else None
    if not isinstance(shape, list) or len(shape) < 2 or (rank and len(shape) != rank):
        return -1
    return int(shape[0])


def samples_per_s(facts: Facts) -> float | None:
    """Throughput of the steady steps, where the batch is proven, or the loaders have counted."""
    if not facts.steps.found_by or not len(facts.steps.seconds):
        return None
    batch = find_batch_size(facts)
    if batch is not None:
        return batch / float(facts.steps.seconds.mean())
    spans = union_of(facts.steps.start[_later_steps(facts)], facts.steps.end[_later_steps(facts)])
    return _loaded_samples(facts, spans) / (spans.total / 1e9) or None


def _later_steps(facts: Facts) -> NDArray[np.bool_]:
    """The steady steps but the first of all, if there are others: before it frameworks check that
    validation works, with batches of its own."""
    later = facts.steps.steady.copy()
    later[:1] = False
    return later if later.any() else facts.steps.steady


def _loaded_samples(facts: Facts, spans: Intervals) -> float:
    """Samples that all loaders handed over in some time, those of evaluations left out. Of
    batches made in the training process some are counted, and stand for the others."""
    loading = facts.timeline.loading
    spans = spans - facts.host.time_in(Role.EVALUATION)
    made = _made_batch_sizes(facts, spans)
    calls = find_batch_waits(facts, Role.BATCH_INLINE)
    count = float(spans.contains_times(calls.end).sum()) * float(made.mean()) if len(made) else 0.0
    taken = loading.takes["iterator"][spans.contains_times(loading.takes["end"])]
    for number in taken[(taken > 0) & (taken <= len(loading.iterators))].tolist():
        count += loading.loaders[loading.iterators[number - 1].loader].batch_size or 0
    return count


def _made_batch_sizes(facts: Facts, spans: Intervals) -> NDArray[np.uint32]:
    """How large counted batches of the training process are: those of some time, or where none
    was counted then, those that no evaluation took, which may be larger. The first batches of a
    process may be an evaluation's, too."""
    batches = facts.timeline.loading.batches
    own = batches[batches["worker"] < 0]
    for kept in (
        spans.contains_times(own["end"]),
        ~facts.host.time_in(Role.EVALUATION).contains_times(own["end"]),
    ):
        if kept.any():
            return own["samples"][kept]
    return own["samples"]
