"""Attention written out: a softmax between two batched matrix products, kernel by kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.causes.device._fused_softmaxes import of_framework
from whyidle.causes.device._kernel_savings import I64, Mask, kernels_named
from whyidle.model.roles import Role

REACH = 8
"""how many small kernels (scale, mask, dropout, casts) may stand between softmax and product"""
SMALL = ("elementwise", "copy", "reduction", "layout")


@dataclass(frozen=True, slots=True, eq=False)
class UnfusedAttention:
    """Kernels of written-out attention, as rows of the device events: the ``products``, the
    ``softmax`` kernels, and everything ``between`` them (softmax included)."""

    products: I64
    softmax: I64
    between: I64

    @property
    def all_rows(self) -> I64:
        """All of them."""
        return np.union1d(self.products, self.between)


def written_out(facts: Facts) -> UnfusedAttention:
    """Find attention that is written out. Where operators are recorded both products must be
    batched ones, so that a classifier's softmax is not taken for attention, and the softmax is none
    of PyTorch's own attention."""
    softmax = kernels_named(facts, r"softmax")
    softmax = softmax[~np.isin(facts.launching_op[softmax], of_framework(facts))]
    products: list[int] = []
    between: list[int] = []
    found: list[int] = []
    for stream in np.unique(facts.device.stream[softmax]) if len(softmax) else []:
        rows = facts.kernels[facts.device.stream[facts.kernels] == stream]
        is_product = facts.group[rows] == "matrix_product"
        is_product &= _is_batched(facts, rows)
        small = np.isin(facts.group[rows], SMALL)
        for index in np.searchsorted(rows, softmax[facts.device.stream[softmax] == stream]):
            before = _nearest_kernel(is_product, small, int(index), -1)
            after = _nearest_kernel(is_product, small, int(index), +1)
            if before >= 0 and after >= 0:
                products += [int(rows[before]), int(rows[after])]
                between += rows[before + 1 : after].tolist()
                found.append(int(rows[index]))
    return UnfusedAttention(_kernel_rows(products), _kernel_rows(found), _kernel_rows(between))


def _kernel_rows(found: list[int]) -> I64:
    return np.unique(np.array(found, dtype=np.int64))


def _is_batched(facts: Facts, rows: I64) -> Mask:
    operators = facts.launching_op[rows]
    told = np.isin(operators, facts.timeline.rows_of(Role.BATCHED_PRODUCT_CALL))
    return np.where(operators >= 0, told, True)


def _nearest_kernel(wanted: Mask, passable: Mask, index: int, step: int) -> int:
    """The nearest wanted kernel in one direction, past small ones only; -1 where there is none."""
    for i in range(index + step, index + step * (REACH + 1), step):
        if not 0 <= i < len(wanted):
            return -1
        if wanted[i]:
            return i
        if not passable[i]:
            return -1
    return -1
