"""Softmax operators that PyTorch's own attention calls: nobody has written those out.

Where no fused kernel takes its inputs (dropout on a CPU, say) ``scaled_dot_product_attention`` is
itself made of product, softmax, product. Asking for it once more would change nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.codes import among, used
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import union

FORWARD, GRADIENT = "aten::_softmax", "aten::_softmax_backward_data"
OWN = ("aten::scaled_dot_product_", "aten::_scaled_dot_product_")
I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]


def of_pytorch(facts: Facts) -> I64:
    """Rows of the host's softmax operators within ``scaled_dot_product_attention``, and of their
    gradients. A backward pass goes through the forward pass from its end, so a gradient belongs to
    the last softmax that has none yet, where layers are computed anew as well. That errs only where
    a model that is not trained calls a softmax of the other kind between the two."""
    host, names = facts.timeline.host, facts.timeline.names
    forward = among(host.name, [i for i, name in enumerate(names) if name == FORWARD])
    gradient = among(host.name, [i for i, name in enumerate(names) if name == GRADIENT])
    rows = np.flatnonzero(forward | gradient)
    found, waiting = [], []
    for row, first, inside in zip(rows, forward[rows], _inside(facts, rows), strict=True):
        if first:
            waiting.append(inside)
        if inside if first else waiting and waiting.pop():
            found.append(row)
    return np.array(found, dtype=np.int64)


def _inside(facts: Facts, rows: I64) -> Mask:
    """Whether each event lies within such a call of its own thread."""
    host, names = facts.timeline.host, facts.timeline.names
    calls = among(host.name, [i for i, name in enumerate(names) if name.startswith(OWN)])
    inside = np.zeros(len(rows), dtype=bool)
    for thread in used(host.thread[calls]):
        own = np.flatnonzero(calls & (host.thread == thread))
        mine = host.thread[rows] == thread
        inside |= mine & union(host.start[own], host.end[own]).covers(host.start[rows])
    return inside
