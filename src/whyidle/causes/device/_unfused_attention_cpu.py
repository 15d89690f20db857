"""Unfused attention in jobs on the CPU, from operators.

The user's lines in stack samples taken while a burst recorded operators. A burst holds operators
without lines, samples hold lines without operators, and each has its own clock; both record the
optimizer's steps, which align the clocks.
"""

from __future__ import annotations

import numpy as np

from whyidle.analysis.arrays import I64, Mask
from whyidle.analysis.device.operator_times import own_times
from whyidle.analysis.device.sync_sites import lines_at
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.device._attention_source import SWITCHES, attention_libraries, lines_calling
from whyidle.causes.device._fused_softmaxes import framework_softmaxes
from whyidle.model.cause import NOTICEABLE, Proof
from whyidle.model.diagnosis import Place
from whyidle.model.proof_facts import DeviceFacts
from whyidle.model.roles import Role
from whyidle.model.timeline import Timeline

APART_NS = 1_000_000
"""steps that the two clocks place further apart than this are different steps"""
PRODUCTS = (0.0, 0.1, 0.4)
BETWEEN = (0.5, 0.85, 1.0)
"""share saved of the products and of the operators between them: low, expected, high"""
COMPILED = (0.3, 0.6, 1.0)
"""share saved of the operators between the products when compiled: 0.64, 0.73, 0.85, 0.98 and 1.02
in five transformers of a fixed length (128 to 1024 words, 64 to 256 wide), 0.36 and 0.45 in one
with batches of different lengths, which is compiled for any length (PyTorch 2.13, CPU)"""
_OTHER = ("matrix_product", "convolution", "attention", "optimizer", "indexing")


def lines_during(burst: Facts, spans: Intervals) -> tuple[Place, ...]:
    """Return the user's lines sampled during ``spans`` of a burst, most frequent first."""
    live, context = burst.live, burst.timeline.burst
    if live is None or live.timeline.looks is None:
        return ()
    if context is None or not context.begin or not context.end:
        return ()
    begin, end = (moment - live.timeline.base_ns for moment in (context.begin, context.end))
    inside = live.timeline.rows_of(Role.OPTIMIZER)
    ends = live.timeline.host.end[inside]
    inside = inside[(ends > begin) & (ends <= end)]
    ahead = _clock_offset(live.timeline.host.end[inside], burst.timeline)
    if ahead is None:
        return ()
    times = live.timeline.looks.time
    return lines_at(
        live, times[spans.contains_times(times - ahead)], live.timeline.host.thread[inside]
    )


def _clock_offset(live: I64, burst: Timeline) -> int | None:
    """Lead of the run's clock over the burst's, ns, by the ends of steps; None where unknown. The
    last step is left out: the burst was stopped while it was open."""
    recorded = burst.host.end[burst.rows_of(Role.OPTIMIZER)]
    if len(live) < 2 or len(live) != len(recorded):
        return None
    ahead = (live - recorded)[:-1]
    return int(np.median(ahead)) if np.ptp(ahead) < APART_NS else None


def prove_unfused_attention(facts: Facts) -> Proof | None:
    """Prove a softmax, or its gradient, between two batched products and only small operators."""
    rows, own, groups = own_times(facts)
    triples = _find_attention(facts, rows, groups)
    softmax, products = triples[:, 1], np.unique(triples[:, ::2])
    inner = [np.arange(before + 1, after) for before, _, after in triples]
    between = np.unique(np.concatenate([np.empty(0, np.int64), *inner]))
    step = facts.step_s * max(facts.step_count, 1)
    streamed, multiplied = (float(own[part].sum()) / step for part in (between, products))
    share = min(streamed + multiplied, facts.bucket_share("compute"))
    if not len(softmax) or share < NOTICEABLE:
        return None
    gains = [
        min(b * streamed + p * multiplied, share) for b, p in zip(BETWEEN, PRODUCTS, strict=True)
    ]
    low, expected, high = (part * streamed for part in COMPILED)
    compiled = from_gains((low, expected, high), "P5: most of the time between products removed")
    place = facts.places.place_of(int(rows[softmax[own[softmax].argmax()]]))
    lines = () if place else _sampled_lines(facts, rows[triples])
    forward = int(_has_role(facts, rows[softmax], Role.SOFTMAX).sum())
    # a gradient belongs to one of them, also where only the gradient lies between two products
    per_step = max(forward, len(softmax) - forward) / max(facts.step_count, 1)
    gap = "time between the products, share of step"
    softmaxes = "softmaxes between two products, per step"
    return Proof(
        headline=f"Unfused attention takes {share:.0%} of the step",
        low=gains[0],
        high=gains[2],
        predicted=from_gains((gains[0], gains[1], gains[2]), "P5: no time between products"),
        evidence=(
            make_evidence("unfused attention, share of step", share, "ratio", source="operators"),
            make_evidence(gap, streamed, "ratio", source="operators"),
            make_evidence(softmaxes, per_step, None, source="operators"),
        ),
        confidence=0.8,
        where=(place,) if place else lines or lines_calling(facts, *SWITCHES.values()),
        facts=DeviceFacts(attention=True, libraries=attention_libraries(facts), compiled=compiled),
    )


def _find_attention(facts: Facts, rows: I64, groups: list[str]) -> I64:
    """Product, softmax and product of each attention, as indices into ``rows``."""
    host, kinds = facts.timeline.host, np.array(groups)
    product = _has_role(facts, rows, Role.BATCHED_PRODUCT)
    # relative position terms are looked up and added before the softmax
    outer = _has_role(facts, rows, Role.PRODUCT_WRAPPER, Role.LOOKUP)
    ends = np.isin(kinds, _OTHER) & ~outer
    either = _has_role(facts, rows, Role.SOFTMAX, Role.SOFTMAX_GRADIENT)
    softmax = np.flatnonzero(either & ~np.isin(rows, framework_softmaxes(facts)))
    edges = np.flatnonzero(ends | product)
    triples = []
    for index in softmax.tolist():
        at = int(np.searchsorted(edges, index))
        if not 0 < at < len(edges):
            continue
        before, after = int(edges[at - 1]), int(edges[at])
        threads = host.thread[rows[[before, index, after]]]
        if product[before] and product[after] and (threads == threads[0]).all():
            triples.append((before, index, after))
    return np.array(triples, dtype=np.int64).reshape(-1, 3)


def _has_role(facts: Facts, rows: I64, *roles: Role) -> Mask:
    return np.isin(rows, np.concatenate([facts.timeline.rows_of(role) for role in roles]))


def _sampled_lines(facts: Facts, triples: I64) -> tuple[Place, ...]:
    """Lines of stack samples during attention. Without such samples: lines of samples of the whole
    run in a softmax, if every softmax belongs to attention."""
    softmaxes = np.setdiff1d(facts.timeline.rows_of(Role.SOFTMAX), framework_softmaxes(facts))
    host = facts.timeline.host
    # gradients are computed at another line
    forward = triples[_has_role(facts, triples[:, 1], Role.SOFTMAX)]
    lines = lines_during(facts, union_of(host.start[forward[:, 0]], host.end[forward[:, 2]]))
    if not lines and not len(np.setdiff1d(softmaxes, triples[:, 1])):
        return lines_calling(facts, Role.SOFTMAX_CALL)
    return lines
