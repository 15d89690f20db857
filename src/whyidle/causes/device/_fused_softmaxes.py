"""Softmax operators inside PyTorch's own attention, which are not unfused attention.

If no fused kernel supports its inputs (on a CPU: with dropout), ``scaled_dot_product_attention``
itself runs product, softmax, product. Calling it instead would change nothing.
"""

from __future__ import annotations

import numpy as np

from whyidle.analysis.arrays import I64, Mask
from whyidle.analysis.facts import Facts
from whyidle.analysis.integer_codes import used_codes
from whyidle.analysis.intervals import union_of
from whyidle.model.roles import Role


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
