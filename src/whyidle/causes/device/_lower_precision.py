"""What matrix work takes in another precision, by its own work and the peaks of the device."""

from __future__ import annotations

import math

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.flops import shapes_of
from whyidle.analysis.step_replay import Saved
from whyidle.causes.device._kernel_savings import F64, I64
from whyidle.model.roles import Role

CAST_BYTES = 2 * (4 + 2)
"""per element of a weight: it is read in 32 bits and written in 16, its gradient the other way"""
CASTS = 2
"""kernels per parameter that do this"""


def lower_precision_factors(facts: Facts, rows: I64, peak: float, *, size: float = 1.0) -> F64:
    """Time per time now of kernels at another ``peak`` (FLOP/s), with tensors of ``size`` times the
    bytes.

    As Amdahl's law has it: what FLOPs and bytes take at the present peaks becomes what they take at
    the new ones, and whatever else a kernel takes (its start, tails, too few blocks) stays. A
    kernel far below its peak has therefore little to win. Where both do not fit into the time of
    the kernel they overlap, and shrink in proportion. nan: the work or the device is not known.
    """
    found = np.full(len(rows), np.nan)
    now = facts.peak
    if now is None or not now.bandwidth:
        return found
    flops, seconds = facts.work.flops[rows], np.maximum(facts.durations_s(rows), 1e-9)
    rates = np.array(
        [
            now.peak_flops(str(facts.precision[row]), tensor=bool(facts.uses_tensor_cores[row]))
            or now.fp32
            for row in rows
        ]
    )
    moving = np.nan_to_num(facts.work.bytes[rows]) / now.bandwidth
    ideal = np.maximum(flops / rates + moving, 1e-12)
    then = flops / np.maximum(rates, peak) + moving * size
    shrinks = np.minimum(ideal, seconds) / seconds
    return np.asarray(1.0 - shrinks * (1.0 - then / ideal))


def cast_time(facts: Facts) -> float:
    """Seconds that casts of the weights, once for each forward pass, and of their gradients take in
    scope; 0 where shapes or the device are not known."""
    peak, lengths = facts.peak, facts.durations_s(facts.kernels)
    if peak is None or not peak.bandwidth or not len(lengths):
        return 0.0
    weights = [
        shape for shapes in _parameter_shapes(facts, _weight_operators(facts)) for shape in shapes
    ]
    moving = CAST_BYTES * float(sum(math.prod(weight) for weight in weights)) / peak.bandwidth
    return moving + CASTS * len(weights) * float(lengths.min())


def launched_casts(facts: Facts, times: float = 1.0) -> Saved:
    """The host launches those casts, at ``times`` what a launch costs it where nothing records:
    less than nothing is saved. Every cast counts where its forward pass is."""
    launching, host = facts.launching, facts.timeline.host
    rows = _weight_operators(facts)
    rows = rows[np.argsort(host.start[rows], kind="stable")]
    own = max(facts.share_of(launching.dispatch_time) - launching.recording_cost, 0.0)
    launch_ns = own * facts.scope.total / max(len(launching.calls), 1)
    count = [max(len(shapes), 1) for shapes in _parameter_shapes(facts, rows)]
    cost = np.concatenate([[0.0], np.cumsum(count)]) * (-times * CASTS * launch_ns)
    starts = host.start[rows]
    return lambda moments: cost[np.searchsorted(starts, moments, side="left")]


def _weight_operators(facts: Facts) -> I64:
    rows, host = facts.rows_of(Role.WEIGHTED), facts.timeline.host
    return rows[facts.host_scope.contains_times(host.start[rows])]


def _parameter_shapes(facts: Facts, rows: I64) -> list[list[tuple[int, ...]]]:
    """Shapes of the weight and of the bias of operators; none where they are not recorded."""
    details = facts.timeline.host.detail[rows]
    shapes = [shapes_of(facts.timeline, int(detail)) for detail in details]
    return [[each for each in every[1:3] if each] for every in shapes]
