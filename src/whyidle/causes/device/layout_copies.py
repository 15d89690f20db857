"""Copies that only change the layout of tensors."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.facts import Facts
from whyidle.analysis.integer_codes import is_among, used_codes
from whyidle.analysis.intervals import union_of
from whyidle.causes.device import _kernel_savings as savings
from whyidle.causes.device._unfused_attention import find_unfused_attention
from whyidle.model.cause import Proof, cause
from whyidle.model.roles import Role

COPIES: Final = re.compile(r"direct_copy_kernel(?!.*WithCast)")
"""PyTorch copies between tensors of one type with this kernel only where their strides differ, and
with a plain memory copy elsewhere (ATen/native/cuda/Copy.cu); conversions of types cast"""
REMAINING = (0.75, 0.4, 0.0)
"""share of the copies that stays (low, expected, high gain), as some readers need their input in
one piece, and others read strided tensors more slowly"""


@cause(
    "Copies only change the layout of tensors",
    bucket="compute",
    needs=("device_events", "host_ops", "launch_links"),
)
def layout_copies(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    The model transposes, permutes or expands tensors, and then makes them contiguous: kernels that
    look like computation copy whole tensors from one order to another.

    Why it costs
    ------------
    Such a copy reads and writes every byte of a tensor, usually with bad locality, and computes
    nothing.

    How it is detected
    ------------------
    PyTorch's strided copy kernels that ``aten::contiguous`` or ``aten::reshape`` launched. Copies
    between types, into slices (a cache), concatenations and plain memory copies do not count, nor
    copies inside of unfused attention. The gain is replayed with 25, 60 and 100 % of them removed
    (P5).

    What looks alike
    ----------------
    Conversions around convolutions are ``wrong-memory-format``. Chains of elementwise kernels are
    ``unfused-memory-bound-ops``.

    What to do
    ----------
    Keep tensors in the order in which they are read: project directly into (batch, head, sequence,
    dimension) and pass views to ``scaled_dot_product_attention``, use ``einsum`` or ``matmul`` on
    views, let grouped-query attention broadcast (``enable_gqa=True``) instead of repeating keys,
    and call ``contiguous()`` only where an operator needs it.

    References
    ----------
    PyTorch documentation, "Tensor Views".
    """
    rows = _find_copies(facts)
    if not len(rows):
        return None
    share, names = savings.busy_share(facts, rows), _asking_operators(facts, rows)
    return savings.make_proof(
        facts,
        rows,
        savings.scale_kernels(facts, (rows, REMAINING)),
        headline=f"{share:.0%} of the busy time copies tensors into another layout for "
        f"{' and '.join(names)}",
        method="P5: copies removed, replayed against the recorded launches",
        evidence=(savings.share_evidence("layout copies, share of busy time", share, rows),),
        confidence=0.75,
    )


def _find_copies(facts: Facts) -> I64:
    names = [i for i in facts.kernel_classes if COPIES.search(facts.timeline.names[i])]
    rows = facts.kernels[is_among(facts.device.name[facts.kernels], names)]
    rows = rows[_operators_around(facts, rows) >= 0]
    return rows[~np.isin(rows, find_unfused_attention(facts).all_rows)]


def _operators_around(facts: Facts, kernels: I64) -> I64:
    """The operator (host row) that asked for the layout of each kernel; -1 where none did."""
    host, calls = facts.timeline.host, facts.launches.call[kernels]
    asking = facts.timeline.rows_of(Role.LAYOUT_CHANGE)
    found = np.full(len(kernels), -1, np.int64)
    for thread in used_codes(host.thread[asking]):
        rows = asking[host.thread[asking] == thread]
        own = np.flatnonzero((calls >= 0) & (host.thread[np.maximum(calls, 0)] == thread))
        begins = host.start[calls[own]]
        inside = union_of(host.start[rows], host.end[rows]).contains_times(begins)
        last = np.searchsorted(host.start[rows], begins, side="right") - 1
        found[own[inside]] = rows[np.maximum(last[inside], 0)]
    return found


def _asking_operators(facts: Facts, kernels: I64) -> list[str]:
    rows, spent = _operators_around(facts, kernels), Counter[str]()
    for row, seconds in zip(rows, facts.durations_s(kernels), strict=True):
        spent[facts.timeline.names[facts.timeline.host.name[row]]] += seconds
    return [name for name, _ in spent.most_common(2)]
