"""Gradients of lookups and of parts of tensors are mostly zeros."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import union_of
from whyidle.analysis.partition.idle_gaps import pick_rows
from whyidle.causes.device import _kernel_savings as savings
from whyidle.model.cause import Proof, cause
from whyidle.model.proof_facts import DeviceFacts
from whyidle.model.roles import Role

REMAINING = (0.5, 0.05, 0.0)
"""share of the zeros that stays (low, expected, high gain): some may be of gradients that are dense
anyway, as where a table is also the output layer"""


@cause(
    "Gradients of indexing are mostly zeros",
    bucket="compute",
    needs=("device_events", "host_ops", "launch_links"),
)
def dense_indexing_gradients(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    The gradient of a lookup in a table (``nn.Embedding``), or of a part of a tensor (``x[b, t]`` in
    a loop), is a whole tensor of zeros in which only the rows or elements that were read are
    filled.

    Why it costs
    ------------
    Each such gradient is allocated and filled with zeros, and all of them are added up. Of a large
    table with dense gradients, the optimizer then updates every row, also those that no sample of
    the batch has read.

    How it is detected
    ------------------
    Kernels fill zeros inside the backward nodes of lookups and of indexing. The gain is replayed
    with 50, 95 and 100 % of them removed (P5). Jobs on the CPU are not judged.

    What looks alike
    ----------------
    Loops of short operators that take no part of a tensor with a gradient are
    ``short-operators-in-model``, which may hold besides. An optimizer that updates many small
    tensors is ``unfused-optimizer``.

    What to do
    ----------
    ``nn.Embedding(..., sparse=True)`` with ``SGD``, ``Adagrad`` or ``SparseAdam``; Adam's numbers
    change, as moments of rows that are not read stay. Index once, outside of the loop: the whole
    tensor (``cross_entropy(logits.flatten(0, 1), target.flatten())``), ``x.unbind(1)`` or
    ``x.split(...)``, whose gradients are put together once.

    References
    ----------
    PyTorch, ``nn.Embedding`` (``sparse``) and ``optim.SparseAdam``; pytorch/pytorch#5309.
    """
    rows = _find_zeros(facts)
    if not len(rows):
        return None
    share = savings.busy_share(facts, rows)
    lookups, every = facts.rows_of(Role.LOOKUP_GRADIENT), facts.rows_of(Role.INDEXING_GRADIENT)
    return savings.make_proof(
        facts,
        rows,
        savings.scale_kernels(facts, (rows, REMAINING)),
        headline=f"{share:.0%} of the busy time fills gradients of indexing with zeros",
        method="P5: zeros removed, replayed against the recorded launches",
        evidence=(savings.share_evidence("zeros of indexing, share of busy time", share, rows),),
        confidence=0.7,
        fix_facts=DeviceFacts(table=len(lookups) > 0, parts=len(every) > len(lookups)),
    )


def _find_zeros(facts: Facts) -> I64:
    """Kernels that fill zeros, launched by gradients of lookups or of parts."""
    host, gradients = facts.timeline.host, facts.rows_of(Role.INDEXING_GRADIENT)
    inside = union_of(host.start[gradients], host.end[gradients])
    operators = facts.launching_op[facts.kernels]
    fills = np.isin(operators, facts.timeline.rows_of(Role.ZERO_FILL))
    return facts.kernels[fills & inside.contains_times(pick_rows(host.start, operators, -1))]
