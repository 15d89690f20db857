"""Chains of unfused operators that each stream their tensors from and to memory."""

from __future__ import annotations

import math
import re
from typing import Final

import numpy as np

from whyidle.analysis.arrays import I64, Mask
from whyidle.analysis.device.flops import shapes_of
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.partition.idle_gaps import pick_rows
from whyidle.causes.device import _kernel_savings as savings
from whyidle.causes.device._unfused_attention import find_unfused_attention
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence

FUSABLE: Final = ("elementwise", "reduction", "copy")
FUSED: Final = re.compile(
    r"^triton_|^fused_|CudaCodeGen|multi_tensor|cub::|sort|topk|pool|TensorOp|Tensor$|Buffer"
)
"""already generated from several operators, or not of the kind that a compiler fuses"""
UNKNOWN: Final = 0
"""number of elements where it is not recorded"""
SAVED = (0.3, 0.6, 1.0)
"""share of a chain's ideal saving that a compiler achieves (low, expected, high): views, layout
copies and reductions over other dimensions break chains"""


@cause("Memory-bound operators are not fused", bucket="compute", needs=("device_events",))
def unfused_memory_bound_ops(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Chains of activations, normalisations, casts and sums run as one kernel per operator.

    Why it costs
    ------------
    Such a kernel takes as long as reading and writing its tensors. A chain of five kernels does
    this five times, a fused kernel once.

    How it is detected
    ------------------
    At least two consecutive kernels of one stream are elementwise operations, reductions or copies,
    and no compiler generated them. A fused normalisation ends a chain. With recorded shapes, a
    change of size ends it too, except for a reduction and its broadcast back to the old size. A
    fused chain is assumed to take as long as its longest kernel. The prediction replays the steps
    with 30 to 100 % of the difference saved (P5).

    What looks alike
    ----------------
    If the host is the bottleneck, the same chains are reported as ``launch-bound-small-kernels``. A
    single elementwise kernel between two matrix products does not count. Unfused attention and
    optimizers have other causes.

    What to do
    ----------
    Use ``torch.compile``, or fused operators (``F.rms_norm``, fused losses, ``foreach``). Compiling
    the model does not change the optimizer.

    References
    ----------
    PyTorch, Performance Tuning Guide, "Fuse operations".
    """
    rows, chain = _find_chains(facts)
    if not len(rows):
        return None
    time = facts.durations_s(rows)
    total = np.bincount(chain, weights=time)
    longest = np.zeros(len(total))
    np.maximum.at(longest, chain, time)
    saved = (1.0 - longest / np.maximum(total, 1e-12))[chain]
    low, expected, high = (1 - part * saved for part in SAVED)
    share = savings.busy_share(facts, rows)
    length, count = round(len(rows) / len(total), 2), len(total)
    return savings.make_proof(
        facts,
        rows,
        savings.scale_kernels(facts, (rows, (low, expected, high))),
        headline=f"{share:.0%} of the busy time is chains of unfused memory-bound kernels",
        method="P5: each chain as long as its longest kernel, 30 to 100 % saved, replayed",
        evidence=(
            savings.share_evidence("chains, share of busy time", share, rows),
            make_evidence("kernels per chain", length, "1", samples=count, source="kernels"),
            *_rate_evidence(facts, rows),
        ),
        confidence=0.6,
    )


def _find_chains(facts: Facts) -> tuple[I64, I64]:
    """Kernels in chains of at least two, and the chain number of each."""
    kernels = facts.kernels
    order = kernels[np.argsort(facts.device.stream[kernels], kind="stable")]
    attention = find_unfused_attention(facts).all_rows
    fusable = np.isin(facts.group[order], FUSABLE) & ~np.isin(order, attention)
    fused = [i for i in facts.kernel_classes if FUSED.search(facts.timeline.names[i])]
    fusable &= ~np.isin(facts.device.name[order], fused)
    if facts.optimizer is not None:
        fusable &= ~np.isin(order, facts.optimizer.kernels)
    stream = facts.device.stream[order]
    starts = np.concatenate([[True], (stream[1:] != stream[:-1]) | ~fusable[1:] | ~fusable[:-1]])
    starts = starts[: len(order)] | _size_changes(facts, order, starts[: len(order)])
    chain = np.cumsum(starts) - 1 if len(order) else np.empty(0, np.int64)
    long = fusable & (np.bincount(chain)[chain] >= 2) if len(order) else fusable
    return order[long], np.unique(chain[long], return_inverse=True)[1]


def _size_changes(facts: Facts, order: I64, starts: Mask) -> Mask:
    """Which kernels cannot work on the result of the previous kernel of their chain: the number of
    elements differs, and no reduction explains it. Only operators of two or more tensors broadcast
    the result of a reduction to the old size again."""
    changes = np.zeros(len(order), dtype=bool)
    reduces = facts.group[order] == "reduction"
    widest, last, reduced = UNKNOWN, UNKNOWN, False
    sizes, counts = _input_sizes(facts, order)
    for i, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        known = UNKNOWN not in (size, widest, last)
        smaller = known and reduced and size < widest and widest % size == 0
        broadcast = known and reduced and size == widest and count > 1
        changes[i] = not starts[i] and known and not (size == last or smaller or broadcast)
        if starts[i] or changes[i] or widest == UNKNOWN:
            widest, reduced = int(size), False
        last, reduced = int(size), reduced or bool(reduces[i])
    return changes


def _input_sizes(facts: Facts, rows: I64) -> tuple[I64, I64]:
    """For each kernel's operator: elements of its largest input (``UNKNOWN`` without shapes), and
    the number of its tensors."""
    details = pick_rows(facts.timeline.host.detail, facts.launching_op[rows], -1)
    kinds, index = np.unique(details, return_inverse=True)
    inputs = [shapes_of(facts.timeline, int(kind)) for kind in kinds]
    sizes = [
        [math.prod(s) for s in shapes if s and all(isinstance(n, int) for n in s)]
        for shapes in inputs
    ]
    largest = np.array([max(tensors, default=UNKNOWN) for tensors in sizes], np.int64)
    return largest[index], np.array([len(tensors) for tensors in sizes], np.int64)[index]


def _rate_evidence(facts: Facts, rows: I64) -> tuple[Evidence, ...]:
    """The memory bandwidth of the chains, where shapes are recorded."""
    known = rows[~np.isnan(facts.work.bytes[rows])]
    seconds = float(facts.durations_s(known).sum())
    if not len(known) or facts.peak is None or seconds <= 0:
        return ()
    rate = float(facts.work.bytes[known].sum()) / seconds
    share = rate / facts.peak.bandwidth
    return (savings.share_evidence("memory bandwidth reached", share, known, "operator shapes"),)
