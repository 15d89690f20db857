"""Kernel times in another precision, from each kernel's work and the device's peaks."""

from __future__ import annotations

import math
from itertools import chain

import numpy as np

from whyidle.analysis.arrays import F64, I64
from whyidle.analysis.device.flops import shapes_of
from whyidle.analysis.facts import Facts
from whyidle.analysis.steps.step_replay import Saved
from whyidle.model.roles import Role

CAST_BYTES = 2 * (4 + 2)
"""per element of a weight: read in 32 bits and written in 16, its gradient the other way round"""
CASTS = 2
"""cast kernels per parameter"""


def lower_precision_factors(facts: Facts, rows: I64, peak: float, *, size: float = 1.0) -> F64:
    """New time / present time of kernels at another ``peak`` (FLOP/s), with tensors of ``size``
    times the bytes; nan where the work or the device is unknown.

    Amdahl's law: the time for FLOPs and bytes at the present peaks becomes that at the new ones;
    the rest of a kernel (start, tails, too few blocks) stays. A kernel far below its peak therefore
    gains little. Where FLOPs and bytes do not fit into the kernel's time, they overlap, and shrink
    in proportion.
    """
    now = facts.peak
    if now is None or not now.bandwidth:
        return np.full(len(rows), np.nan)
    flops, seconds = facts.work.flops[rows], np.maximum(facts.durations_s(rows), 1e-9)
    kinds = zip(facts.precision[rows], facts.uses_tensor_cores[rows], strict=True)
    rates = np.array(
        [now.peak_flops(str(kind), tensor=bool(tensor)) or now.fp32 for kind, tensor in kinds]
    )
    moving = np.nan_to_num(facts.work.bytes[rows]) / now.bandwidth
    ideal = np.maximum(flops / rates + moving, 1e-12)
    reduced = flops / np.maximum(rates, peak) + moving * size
    shrinking = np.minimum(ideal, seconds) / seconds
    return np.asarray(1.0 - shrinking * (1.0 - reduced / ideal))


def cast_time(facts: Facts) -> float:
    """Seconds in scope for casts of the weights, once per forward pass, and of their gradients; 0
    where shapes or the device are unknown."""
    peak, lengths = facts.peak, facts.durations_s(facts.kernels)
    if peak is None or not peak.bandwidth or not len(lengths):
        return 0.0
    shapes = chain.from_iterable(_parameter_shapes(facts, _weight_operators(facts)))
    sizes = [math.prod(shape) for shape in shapes]
    moving = CAST_BYTES * float(sum(sizes)) / peak.bandwidth
    return moving + CASTS * len(sizes) * float(lengths.min())


def cast_launches(facts: Facts, times: float = 1.0) -> Saved:
    """Host time for launching these casts, as a negative saving: ``times`` the cost of a launch
    without recording. Every cast counts at its forward pass."""
    launching, host = facts.kernel_launching, facts.timeline.host
    rows = _weight_operators(facts)
    rows = rows[np.argsort(host.start[rows], kind="stable")]
    own = max(facts.share_of(launching.dispatch_time) - launching.recording_cost, 0.0)
    launch_ns = own * facts.scope.total / max(len(launching.calls), 1)
    if len(launching.calls) > 1:  # the mean of a cold start holds what happens once
        launch_ns = min(launch_ns, float(np.median(np.diff(np.sort(host.start[launching.calls])))))
    count = [max(len(shapes), 1) for shapes in _parameter_shapes(facts, rows)]
    cost = np.concatenate([[0.0], np.cumsum(count)]) * (-times * CASTS * launch_ns)
    starts = host.start[rows]
    return lambda moments: cost[np.searchsorted(starts, moments, side="left")]


def _weight_operators(facts: Facts) -> I64:
    rows, host = facts.rows_of(Role.WEIGHTED), facts.timeline.host
    return rows[facts.host_scope.contains_times(host.start[rows])]


def _parameter_shapes(facts: Facts, rows: I64) -> list[list[tuple[int, ...]]]:
    """Shapes of the weight and the bias of each operator; empty where they are not recorded."""
    details = facts.timeline.host.detail[rows]
    inputs = [shapes_of(facts.timeline, int(detail)) for detail in details]
    return [[shape for shape in shapes[1:3] if shape] for shapes in inputs]
