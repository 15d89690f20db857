"""Gradients of lookups and of parts of tensors are mostly zeros."""

from __future__ import annotations

import re

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import union_of
from whyidle.analysis.partition.idle_gaps import pick_rows
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.device import _kernel_savings as savings
from whyidle.model.cause import LEAST_SHARE, MOSTLY, Proof, cause
from whyidle.model.proof_facts import DeviceFacts
from whyidle.model.roles import Role

REMAINING = (0.5, 0.05, 0.0)
"""share of the zeros that stays (low, expected, high gain): some gradients may be dense anyway, as
when a table is also the output layer"""
SPARSE = (12.0, 6.0, 2.5)
"""cost of a row in a sparse update, relative to a dense one (low, expected, high gain): 2.9, 5.6,
8.2 and 11 times with SparseAdam, tables of 20,000 to 100,000 rows and 256 to 4,096 reads"""


@cause(
    "Gradients of indexing are mostly zeros",
    bucket="compute",
    needs=("device_events", "host_ops", "launch_links"),
    watched=("device_time", "own_settings", "steady_steps"),
)
def dense_indexing_gradients(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    The gradient of ``nn.Embedding``, or of an indexed tensor (``x[b, t]`` in a loop), is a dense
    tensor. It is zero except for the rows or elements that were read.

    Why it costs
    ------------
    Each of these gradients is allocated, filled with zeros and added up. With a large table, the
    optimizer also updates all rows that the batch did not use.

    How it is detected
    ------------------
    Trace: kernels fill zeros inside the backward nodes of embeddings and indexing. The prediction
    removes 50 to 100 % of their time (expected: 95 %, P5).

    Watched job on the CPU: in one step, the probe counts rows without a gradient in matrices of
    which a batch reads up to a tenth. These rows must be more than half of what the optimizer
    updates. The gain is the time of updates and embedding gradients, minus that of sparse updates.

    What looks alike
    ----------------
    Loops of short operators without indexing are reported as ``short-operators-in-model``. An
    optimizer that updates many small tensors is reported as ``unfused-optimizer``.

    What to do
    ----------
    Use ``nn.Embedding(..., sparse=True)`` with ``SGD``, ``Adagrad`` or ``SparseAdam``, which unlike
    ``Adam`` does not update the moments of unused rows. Replace indexing in a loop by
    ``x.unbind(1)``, ``x.split(...)`` or one call for the whole tensor.

    References
    ----------
    PyTorch, ``nn.Embedding`` (``sparse``) and ``optim.SparseAdam``; pytorch/pytorch#5309.
    """
    if facts.timeline.looks is not None:
        return _prove_dense_tables(facts) if facts.on_cpu else None
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


def _prove_dense_tables(facts: Facts) -> Proof | None:
    """Prove updates of rows that no sample of the batch has read, by their zero gradients."""
    optimizer, host = facts.timeline.process.optimizer, facts.timeline.host
    if optimizer is None or optimizer.unread <= MOSTLY * optimizer.elements:
        return None
    calls = facts.rows_of(Role.OPTIMIZER)
    updates = facts.share_of(union_of(host.start[calls], host.end[calls]))
    operators = facts.burst.operators if facts.burst else ()
    passed = (row for row in operators if row.phase == "backward")
    gradients = sum(row.share for row in passed if re.search("embedding|fill_|zero_", row.name))
    cost = updates + gradients * facts.bucket_share("compute")
    read = 1.0 - optimizer.unread / optimizer.elements
    low, expected, high = (cost * max(0.0, 1.0 - read * times) for times in SPARSE)
    if expected < LEAST_SHARE:
        return None
    return Proof(
        headline=f"{1.0 - read:.1%} of what {optimizer.name} updates has a gradient of zeros: rows "
        "of tables that no sample of the batch reads",
        predicted=from_gains((low, expected, high), "the step without updates of these rows"),
        evidence=(
            make_evidence("updates, share of step", updates, "ratio", source="calls"),
            make_evidence("elements that are updated", optimizer.elements, None, source="settings"),
            make_evidence("of them in rows with a gradient of zeros", 1.0 - read, "ratio"),
        ),
        confidence=0.85,
        where=tuple(filter(None, [facts.places.place_of(int(calls[0]))])) if len(calls) else (),
        facts=DeviceFacts(table=True),
    )


def _find_zeros(facts: Facts) -> I64:
    """Kernels that fill zeros, launched by gradients of lookups or of parts."""
    host, gradients = facts.timeline.host, facts.rows_of(Role.INDEXING_GRADIENT)
    inside = union_of(host.start[gradients], host.end[gradients])
    operators = facts.launching_op[facts.kernels]
    fills = np.isin(operators, facts.timeline.rows_of(Role.ZERO_FILL))
    return facts.kernels[fills & inside.contains_times(pick_rows(host.start, operators, -1))]
