"""Softmax operators that PyTorch's own attention calls: nobody has written those out.

Where no fused kernel takes its inputs (dropout on a CPU, say) ``scaled_dot_product_attention`` is
itself made of product, softmax, product. Asking for it once more would change nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.codes import used_codes
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import union_of
from whyidle.model.roles import Role

I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]


def of_framework(facts: Facts) -> I64:
    """Rows of the host's softmax operators within ``scaled_dot_product_attention``, and of their
    gradients. A backward pass goes through the forward pass from its end, so a gradient belongs to
    the last softmax that has none yet, where layers are computed anew as well. That errs only where
    a model that is not trained calls a softmax of the other kind between the two."""
    forward = facts.timeline.rows_of(Role.SOFTMAX)
    rows = np.union1d(forward, facts.timeline.rows_of(Role.SOFTMAX_GRADIENT))
    found, waiting = [], []
    firsts = np.isin(rows, forward)
    for row, first, inside in zip(rows, firsts, _is_inside_fused(facts, rows), strict=True):
        if first:
            waiting.append(inside)
        if inside if first else waiting and waiting.pop():
            found.append(row)
    return np.array(found, dtype=np.int64)


def _is_inside_fused(facts: Facts, rows: I64) -> Mask:
    """Whether each event lies within such a call of its own thread."""
    host, calls = facts.timeline.host, facts.timeline.rows_of(Role.ATTENTION)
    inside = np.zeros(len(rows), dtype=bool)
    for thread in used_codes(host.thread[calls]):
        own = calls[host.thread[calls] == thread]
        mine = host.thread[rows] == thread
        inside |= mine & union_of(host.start[own], host.end[own]).contains_times(host.start[rows])
    return inside
