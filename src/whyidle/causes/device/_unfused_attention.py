"""Kernels of unfused attention: a softmax between two batched matrix products."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whyidle.analysis.arrays import I64, Mask
from whyidle.analysis.facts import Facts
from whyidle.analysis.integer_codes import used_codes
from whyidle.analysis.intervals import union_of
from whyidle.causes.device._kernel_savings import kernels_named
from whyidle.model.roles import Role

REACH = 8
"""largest number of small kernels (scale, mask, dropout, casts) between softmax and product"""
SMALL = ("elementwise", "copy", "reduction", "layout")


@dataclass(frozen=True, slots=True, eq=False)
class UnfusedAttention:
    """Kernels of unfused attention, as rows of the device events."""

    products: I64
    softmax: I64
    between: I64  # all kernels between the products, softmax included

    @property
    def all_rows(self) -> I64:
        """All of them."""
        return np.union1d(self.products, self.between)


def find_unfused_attention(facts: Facts) -> UnfusedAttention:
    """Find unfused attention.

    If operators are recorded, both products must be batched, which excludes a classifier's softmax,
    and the softmax must not be part of PyTorch's own attention. Kernels of a CUDA graph have no
    operators, so their products are unknown."""
    softmax = kernels_named(facts, r"softmax")
    softmax = softmax[facts.group[softmax] == "reduction"]  # not of a router or a sampler
    softmax = softmax[~np.isin(facts.launching_op[softmax], framework_softmaxes(facts))]
    products: list[int] = []
    between: list[int] = []
    inner: list[int] = []
    for stream in np.unique(facts.device.stream[softmax]) if len(softmax) else []:
        rows = facts.kernels[facts.device.stream[facts.kernels] == stream]
        is_product = (facts.group[rows] == "matrix_product") & _is_batched(facts, rows)
        small = np.isin(facts.group[rows], SMALL)
        for index in np.searchsorted(rows, softmax[facts.device.stream[softmax] == stream]):
            before = _nearest_kernel(is_product, small, int(index), -1)
            after = _nearest_kernel(is_product, small, int(index), +1)
            if before >= 0 and after >= 0:
                products += [int(rows[before]), int(rows[after])]
                between += rows[before + 1 : after].tolist()
                inner.append(int(rows[index]))
    return UnfusedAttention(
        *(np.unique(np.array(found, dtype=np.int64)) for found in (products, inner, between))
    )


def _is_batched(facts: Facts, rows: I64) -> Mask:
    operators = facts.launching_op[rows]
    batched = np.isin(operators, facts.timeline.rows_of(Role.BATCHED_PRODUCT_CALL))
    return np.where(operators >= 0, batched, ~facts.in_graph[rows])


def _nearest_kernel(wanted: Mask, passable: Mask, index: int, step: int) -> int:
    """The nearest wanted kernel in one direction, with only small ones between; -1 if none."""
    for i in range(index + step, index + step * (REACH + 1), step):
        if not 0 <= i < len(wanted):
            return -1
        if wanted[i]:
            return i
        if not passable[i]:
            return -1
    return -1


def framework_softmaxes(facts: Facts) -> I64:
    """Rows of the host's softmax operators within ``scaled_dot_product_attention``, and of their
    gradients.

    A backward pass visits the forward pass from its end, so a gradient belongs to the last softmax
    that has none yet, also under recomputation. This is wrong only if a model that is not trained
    calls a softmax of the other kind in between."""
    forward = facts.timeline.rows_of(Role.SOFTMAX)
    rows = np.union1d(forward, facts.timeline.rows_of(Role.SOFTMAX_GRADIENT))
    matches, waiting = [], []
    is_forward = np.isin(rows, forward)
    inside = _is_inside_attention(facts, rows)
    for row, is_first, is_inside in zip(rows, is_forward, inside, strict=True):
        if is_first:
            waiting.append(is_inside)
        if is_inside if is_first else waiting and waiting.pop():
            matches.append(row)
    return np.array(matches, dtype=np.int64)


def _is_inside_attention(facts: Facts, rows: I64) -> Mask:
    """Whether each event lies within such a call of its own thread."""
    host, calls = facts.timeline.host, facts.timeline.rows_of(Role.ATTENTION)
    inside = np.zeros(len(rows), dtype=bool)
    for thread in used_codes(host.thread[calls]):
        own = calls[host.thread[calls] == thread]
        same_thread = host.thread[rows] == thread
        spans = union_of(host.start[own], host.end[own])
        inside |= same_thread & spans.contains_times(host.start[rows])
    return inside
