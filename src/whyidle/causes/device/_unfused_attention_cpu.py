"""Attention written out on a job whose device is the CPU, operator by operator."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.burst_samples import lines_during
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.operator_times import own_times
from whyidle.causes.device._attention_source import (
    attention_libraries,
    calling_lines,
    softmax_lines,
)
from whyidle.causes.device._fused_softmaxes import of_framework
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Place
from whyidle.model.proof_facts import DeviceFacts
from whyidle.model.roles import Role

I64 = NDArray[np.int64]

LEAST_SHARE = 0.03
"""share of the step below which it is not worth a word"""
PRODUCTS = (0.0, 0.1, 0.4)
BETWEEN = (0.5, 0.85, 1.0)
"""what goes of the products and of all between them, as on a device: careful, expected, hopeful"""
COMPILED = (0.3, 0.6, 1.0)
"""the same of what lies between where it is compiled: 0.64, 0.73, 0.85, 0.98 and 1.02 in five
transformers of a fixed length (128 to 1024 words, 64 to 256 wide), 0.36 and 0.45 in one whose
batches differ in length, which is compiled for any (PyTorch 2.13, CPU)"""
_OTHER = ("matrix_product", "convolution", "attention", "optimizer", "indexing")


def written_out_on_cpu(facts: Facts) -> Proof | None:
    """A softmax, or its gradient, between two batched products and nothing but small operators."""
    rows, own, groups = own_times(facts)
    found = _find_attention(facts, rows, groups)
    softmax, products = found[:, 1], np.unique(found[:, ::2])
    between = _rows_between(found)
    step = facts.step_s * max(facts.step_count, 1)
    streamed, multiplied = (float(own[part].sum()) / step for part in (between, products))
    share = min(streamed + multiplied, facts.bucket_share("compute"))
    if not len(softmax) or share < LEAST_SHARE:
        return None
    gains = [
        min(b * streamed + p * multiplied, share) for b, p in zip(BETWEEN, PRODUCTS, strict=True)
    ]
    careful, expected, hopeful = (each * streamed for each in COMPILED)
    compiled = from_gains((careful, expected, hopeful), "P5: what lies between mostly goes")
    place = facts.places.place_of(int(rows[softmax[own[softmax].argmax()]]))
    seen = () if place else _sampled_lines(facts, rows[found])
    return Proof(
        headline=f"{share:.0%} of the step is attention written out, product by product",
        low=gains[0],
        high=gains[2],
        predicted=from_gains((gains[0], gains[1], gains[2]), "P5: what lies between goes"),
        evidence=(
            make_evidence(
                "written-out attention, share of step", share, "ratio", source="operators"
            ),
            make_evidence("of it between the products", streamed, "ratio", source="operators"),
            make_evidence(
                "softmax between two products, per step",
                _count_softmaxes(facts, rows[softmax]) / max(facts.step_count, 1),
                None,
                source="operators",
            ),
        ),
        confidence=0.8,
        where=(place,) if place else seen or calling_lines(facts),
        facts=DeviceFacts(attention=True, libraries=attention_libraries(facts), compiled=compiled),
    )


def _find_attention(facts: Facts, rows: I64, groups: list[str]) -> I64:
    """Each softmax between two products: the one before it, itself and the one behind it, as
    indices into ``rows``."""
    host, kinds = facts.timeline.host, np.array(groups)
    product = _playing(facts, rows, Role.BATCHED_PRODUCT)
    # a lookup is of what is added for the distance of two positions, before the softmax
    outer = _playing(facts, rows, Role.PRODUCT_WRAPPER, Role.LOOKUP)
    ends = np.isin(kinds, _OTHER) & ~outer
    either = _playing(facts, rows, Role.SOFTMAX, Role.SOFTMAX_GRADIENT)
    softmax = np.flatnonzero(either & ~np.isin(rows, of_framework(facts)))
    edges = np.flatnonzero(ends | product)
    found = []
    for index in softmax.tolist():
        at = int(np.searchsorted(edges, index))
        if not 0 < at < len(edges):
            continue
        before, after = int(edges[at - 1]), int(edges[at])
        one = host.thread[rows[before]] == host.thread[rows[after]] == host.thread[rows[index]]
        if one and product[before] and product[after]:
            found.append((before, index, after))
    return np.array(found, dtype=np.int64).reshape(-1, 3)


def _playing(facts: Facts, rows: I64, *roles: Role) -> NDArray[np.bool_]:
    """Which of some host events play one of some roles."""
    found = np.zeros(len(rows), dtype=bool)
    for role in roles:
        found |= np.isin(rows, facts.timeline.rows_of(role))
    return found


def _rows_between(found: I64) -> I64:
    inner = [np.arange(before + 1, after) for before, _, after in found]
    return np.unique(np.concatenate([np.empty(0, np.int64), *inner]))


def _count_softmaxes(facts: Facts, rows: I64) -> int:
    """How many softmaxes these are: a gradient is of one that is there, also where only the
    gradient lies between two products (what is looked up may lie between the others)."""
    forward = int(_playing(facts, rows, Role.SOFTMAX).sum())
    return max(forward, len(rows) - forward)


def _sampled_lines(facts: Facts, found: I64) -> tuple[Place, ...]:
    """Lines at which the run was looked at during attention. Where nobody looked just then, those
    that looks of the whole run found at a softmax, if attention has all there are."""
    softmaxes = np.setdiff1d(facts.timeline.rows_of(Role.SOFTMAX), of_framework(facts))
    alone = len(np.setdiff1d(softmaxes, found[:, 1])) == 0
    return lines_during(facts, _forward_time(facts, found)) or (
        softmax_lines(facts) if alone else ()
    )


def _forward_time(facts: Facts, found: I64) -> Intervals:
    """When attention ran in forward passes: gradients are computed at another line."""
    host = facts.timeline.host
    own = found[_playing(facts, found[:, 1], Role.SOFTMAX)]
    return union_of(host.start[own[:, 0]], host.end[own[:, 2]])
