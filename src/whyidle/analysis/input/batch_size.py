"""The batch size, where shapes prove it, and the predicted step with a larger batch (P6). A
recording has one batch size, so a kernel's time is split into a part independent of the batch
(latency, tails, too few blocks to fill the device) and the time that its bytes or FLOPs take at
some share of the device's peak. With ``k`` times the batch only the second part grows ``k``-fold;
the step is replayed with those times against the recorded launches, whose number stays the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.arrays import F64, Mask
from whyidle.analysis.device.device_peaks import DevicePeaks
from whyidle.analysis.device.flops import shapes_of
from whyidle.analysis.facts import Facts
from whyidle.analysis.input.batch_waits import HANDOFF_S, find_batch_waits
from whyidle.analysis.integer_codes import is_among, used_codes
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.recording_overhead import share_of_recording
from whyidle.analysis.steps.step_replay import combine_changes
from whyidle.model.cause import LEAST_SHARE
from whyidle.model.diagnosis import Predicted
from whyidle.model.roles import Role

REACHED: Final = (0.25, 0.6, 1.0)
"""share of the peak at which more work of the same kind runs: lower bound, expected, upper bound"""
FULL: Final = 0.7
"""estimated occupancy from which all of a kernel's time grows with the batch (lower bound)"""
HOST_SPREAD: Final = 0.05
"""how far the host's own time differs between two runs of one program"""
MEASURED: Final = 0.15
"""relative error of a gain that follows from passes timed with larger batches"""
CALL_S: Final = 5e-6
"""cost of calling an operator on a CPU: a fifth of the 18 to 29 us that the loop of an Adam update
takes per tensor (``bench/optimizer_updates.py``)"""
KNOWN: Final = 0.8
"""share of kernel time whose work must be known"""
FIXED: Final = ("optimizer",)
"""work that does not grow with the batch"""


@dataclass(frozen=True, slots=True)
class LargerBatch:
    """The step with ``times`` the batch: seconds expected, at best, at worst, and now."""

    times: float
    step_s: float
    best_s: float
    worst_s: float
    now_s: float

    def relative_throughput(self, seconds: float) -> float:
        """Return samples per second relative to now for one of the step times."""
        return self.times * self.now_s / seconds

    def predict_gain(self) -> Predicted:
        """Return the gain in samples per second."""
        speedup, low, high = map(self.relative_throughput, (self.step_s, self.worst_s, self.best_s))
        method = f"P6 from one size: samples per second at {self.times:.3g} times the batch"
        return Predicted(speedup=speedup, low=low, high=high, method=method)


def predict_larger_batch(facts: Facts, times: float) -> LargerBatch | None:
    """Predict the step with ``times`` the batch; None where the work is unknown. Loading and copies
    grow with the batch, and in the worst case communication does, too."""
    slopes = _batch_slopes(facts)
    return None if slopes is None else _larger_batch(facts, times, slopes)


def bound_larger_batch(facts: Facts, times: float) -> LargerBatch:
    """Bound the step with ``times`` the batch where the kernels' work is unknown."""
    rows = facts.device_rows
    slopes = np.ones(len(facts.device))
    slopes[rows] = np.where(np.isin(facts.group[rows], FIXED), 0.0, 1.0)
    return _larger_batch(facts, times, (slopes, slopes / 2, np.zeros_like(slopes)))


def _larger_batch(facts: Facts, times: float, slopes: tuple[F64, F64, F64]) -> LargerBatch:
    replay, steps = facts.replay, max(facts.step_count, 1)
    outside_ns = replay.base_ns - facts.scope.total
    # a host slowed by a recording would hide device work that it does not hide in the job
    saved = facts.kernel_launching.without_recording(
        1.0 if facts.kernel_launching.is_cost_measured else 0.0
    )
    now_s = (replay.replayed_length(saved) - outside_ns) / steps / 1e9
    seconds = []
    for slope, spread in zip(slopes, (-HOST_SPREAD, 0.0, HOST_SPREAD), strict=True):
        host = combine_changes(replay.reduce_host_time(facts.scope, spread), saved)
        length = replay.replayed_length(host, factor=1.0 + (times - 1.0) * slope)
        seconds.append((length - outside_ns) / steps / 1e9)
    return _feed_batch(facts, times, (min(seconds), seconds[1], max(seconds)), now_s)


def _feed_batch(
    facts: Facts, times: float, seconds: tuple[float, float, float], now_s: float
) -> LargerBatch:
    """The step (best, likely, worst) if its batch is loaded and copied, too: what holds up the step
    now grows with the batch, and workers make as many samples per second as now."""
    more = max(times - 1.0, 0.0) * now_s
    loaded = facts.bucket_share("input")
    exposed = more * (loaded + facts.bucket_share("transfer"))
    workers = facts.workers
    made = 0.0
    if workers.is_known:
        made = times * workers.per_step * workers.uncontended_batch_time / workers.count
    elif loaded > max(LEAST_SHARE, HANDOFF_S / now_s) and len(
        facts.rows_of(Role.BATCH_FROM_WORKERS)
    ):
        made = times * now_s  # they are waited for, longer than a ready batch is
    best, likely, worst = (max(each + exposed, made) for each in seconds)
    return LargerBatch(
        times, likely, best, worst + more * facts.bucket_share("communication"), now_s
    )


def _batch_slopes(facts: Facts) -> tuple[F64, F64, F64] | None:
    """Per device event, the share of its time that grows with the batch."""
    rows, peak = facts.device_rows, facts.peak
    seconds = np.maximum(facts.durations_s(rows), 1e-9)
    if peak is None or not len(rows):
        return None
    rates = _work_rates(facts, peak)[facts.device.name[rows]]
    ideal = np.fmax(facts.work.bytes[rows] / peak.bandwidth, facts.work.flops[rows] / rates)
    fixed = np.isin(facts.group[rows], FIXED)
    known = ~np.isnan(ideal) | fixed
    if float(seconds[known].sum()) < KNOWN * float(seconds.sum()):
        return None
    full = facts.device.occupancy[rows] >= FULL
    slopes = []
    for peak_share in REACHED:
        share = np.minimum(np.where(known, ideal, np.inf) / peak_share / seconds, 1.0)
        if peak_share == REACHED[0]:
            share = np.where(full, 1.0, share)
        slope = np.ones(len(facts.device))
        slope[rows] = np.where(fixed, 0.0, share)
        slopes.append(slope)
    return slopes[0], slopes[1], slopes[2]


def _work_rates(facts: Facts, peak: DevicePeaks) -> F64:
    """The device's FLOP/s at the work of every name of a device event."""
    rates = np.full(len(facts.timeline.names), np.nan)
    for name, kernel in facts.kernel_classes.items():
        rates[name] = peak.peak_flops(kernel.precision, tensor=bool(kernel.tensor)) or peak.fp32
    return rates


def predict_on_cpu(facts: Facts, times: float) -> Predicted:
    """Predict the samples per second of a job on the CPU with ``times`` the batch, relative to now,
    from a recording of every operator.

    Where ``--look model`` timed larger batches, by those passes; between them, a pass grows
    linearly. Else the optimizer's step and calls of operators are paid once per step; at worst, the
    script's own Python grows and calls are cheap, at best half of the operators' time stays, as
    that of reading weights. In a closure, the optimizer's own is what follows the last pass."""
    run = facts.live or facts
    host, rows = run.timeline.host, run.rows_of(Role.OPTIMIZER)
    start, end, passed = host.start[rows], host.end[rows], host.end[run.rows_of(Role.BACKWARD)]
    last = np.append(-1, np.sort(passed))[np.searchsorted(np.sort(passed), end, side="right")]
    optimizer = run.share_of(union_of(np.maximum(start, last), end))
    passes = max(run.bucket_share("compute") - optimizer, 0.0)
    look, python = run.timeline.process.model_look, run.bucket_share("host")
    rest = 1.0 - optimizer - passes - python
    if look is not None and look.batches:
        points = np.array([(1.0, 1.0), *look.batches])
        grown = float(np.interp(times, points[:, 0], points[:, 1]))
        gain = times / (optimizer + python + rest * times + passes * grown)
        low, high = max(1.0, (1.0 - MEASURED) * gain), (1.0 + MEASURED) * gain
        return Predicted(speedup=gain, low=low, high=high, method="passes measured in this job")
    scope_s = facts.scope_s * (1.0 - share_of_recording(facts))
    kinds = [kind for kind in facts.operators if kind.phase != "optimizer"]
    most = min(sum(kind.total_s for kind in kinds) / scope_s, passes)
    working_s = sum(max(kind.total_s - kind.count * CALL_S, 0.0) for kind in kinds)
    likely = min(working_s / scope_s, passes)
    slow, middle, fast = (
        times / (1.0 + (times - 1.0) * (rest + share))
        for share in (python + most, likely, likely / 2)
    )
    method = "the optimizer's step and calls of operators, once per step"
    return Predicted(speedup=middle, low=slow, high=fast, method=method)


def find_batch_size(facts: Facts) -> int | None:
    """Return the samples per step if two kinds of operators agree on their first dimension, and
    some run once per step (else a step has several forward passes); else None."""
    host, timeline = facts.timeline.host, facts.timeline
    ops = facts.ops[0]
    batched = [name for name in used_codes(host.name[ops]) if timeline.operator(int(name)).batch]
    rows = ops[is_among(host.name[ops], batched)]
    rows = rows[facts.host_scope.contains_times(host.start[rows]) & (host.detail[rows] >= 0)]
    calls = Counter((int(host.name[row]), int(host.detail[row])) for row in rows)
    dimensions: dict[int, set[int]] = {}
    passes: Counter[tuple[int, str]] = Counter()
    for (name, detail), count in calls.items():
        shapes = shapes_of(timeline, detail)
        dimensions.setdefault(name, set()).add(
            _first_dimension(shapes, *(timeline.operator(name).batch or (0, 0)))
        )
        passes[name, str(shapes)] += count
    sizes = set().union(*dimensions.values()) if dimensions else set()
    is_unique = len(dimensions) >= 2 and len(sizes) == 1 and -1 not in sizes
    return sizes.pop() if is_unique and min(passes.values()) == facts.step_count else None


def backward_passes(facts: Facts) -> int | None:
    """Return the backward passes per step of a watched run; None where none is recorded."""
    rows = facts.rows_of(Role.BACKWARD)
    count = int(facts.host_scope.contains_times(facts.timeline.host.start[rows]).sum())
    return max(round(count / facts.step_count), 1) if count and facts.step_count else None


def _first_dimension(shapes: list[object], position: int, rank: int) -> int:
    shape = shapes[position] if len(shapes) > position else None
    if not isinstance(shape, list) or len(shape) < 2 or (rank and len(shape) != rank):
        return -1
    return int(shape[0])


def samples_per_s(facts: Facts) -> float | None:
    """Return the throughput of the steady steps, if the batch size or a loader is known."""
    if not facts.steps.found_by or not len(facts.steps.seconds):
        return None
    batch = find_batch_size(facts)
    if batch is not None:
        return batch / float(facts.steps.seconds.mean())
    spans = union_of(facts.steps.start[_later_steps(facts)], facts.steps.end[_later_steps(facts)])
    return _loaded_samples(facts, spans) / (spans.total / 1e9) or None


def _later_steps(facts: Facts) -> Mask:
    """The steady steps but the first, before which frameworks check validation."""
    later = facts.steps.steady.copy()
    later[:1] = False
    return later if later.any() else facts.steps.steady


def _loaded_samples(facts: Facts, spans: Intervals) -> float:
    """Samples of all loaders without evaluations; inline batches are extrapolated."""
    loading = facts.timeline.loading
    spans = spans - facts.host.time_in(Role.EVALUATION)
    sizes = _made_batch_sizes(facts, spans)
    waits = find_batch_waits(facts, Role.BATCH_INLINE)
    count = (
        float(spans.contains_times(waits.end).sum()) * float(sizes.mean()) if len(sizes) else 0.0
    )
    iterators = loading.takes["iterator"][spans.contains_times(loading.takes["end"])]
    for number in iterators[(iterators > 0) & (iterators <= len(loading.iterators))].tolist():
        count += loading.loaders[loading.iterators[number - 1].loader].batch_size or 0
    return count


def _made_batch_sizes(facts: Facts, spans: Intervals) -> NDArray[np.uint32]:
    """Sizes of inline batches in ``spans``, else outside evaluations, else of all."""
    batches = facts.timeline.loading.batches
    inline = batches[batches["worker"] < 0]
    for mask in (
        spans.contains_times(inline["end"]),
        ~facts.host.time_in(Role.EVALUATION).contains_times(inline["end"]),
    ):
        if mask.any():
            return inline["samples"][mask]
    return inline["samples"]
