"""The model computes on padding."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.input.padding import Padding, find_padding
from whyidle.analysis.lines.source_lines import frame_place, in_library
from whyidle.analysis.steps.forecast import from_gains
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.proof_facts import DeviceFacts

LEAST_PADDING = 0.05
"""share of padding that batches of similar lengths have, too"""
UNKNOWN = (0.0, 1.0)
"""share of padded positions that the model computes on (low, expected), if batches of one length do
not show it. Batches are padded for layers that compute on every position, so all are expected"""
LENGTHS = (2, (0.0, 0.5))
"""the same where lengths reveal the padding: recurrent layers use them to skip it"""
DEPENDS = 0.5
"""low estimate: share of the work outside the optimizer that depends on the number of positions"""
SQUARED = (0.2, 0.5)
"""share of the work that grows with the square of a length, expected and high: attention is
``n / (n + 6 d)`` of a transformer's work for ``n`` positions and a width of ``d``, so 18 % for 1024
and 768; the low estimate is zero"""
UNFITTED = (0.0, 0.0, 1.0)
"""wasted share of the work on padding (low, expected, high), if only a longer run would show it"""
LEAST_BATCHES = 3
STEPS = "steps fitted against real and padded positions"
SOURCES = {1: "masks", 2: "lengths", 3: "vectors of zeros", 4: "the number that rows end in"}
CONFIDENCE = {1: 0.9, 2: 0.85, 3: 0.7, 4: 0.7}


@cause(
    "Much of each batch is padding",
    bucket="compute",
    needs=("device_time", "steady_steps", "batch_padding"),
)
def padding_waste(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Samples are padded to a fixed maximum length, or to the longest sample of the batch.

    Why it costs
    ------------
    The model computes on padding as on real positions, and the result is discarded.

    How it is detected
    ------------------
    The probe counts padded positions in some batches, from a mask, lengths, zero vectors or a
    repeated last number. At least 5 % of all positions must be padding. Rounding up to a multiple
    of 8 does not count.

    If batch lengths vary, step times are fitted as ``T = a + b real + c padding``, where ``c`` is
    the cost of padding. The expected gain is zero if ``c`` is within two standard errors of zero.

    If all batches have the same length, the cost is estimated from the share of padding in the work
    outside the optimizer, of which a fifth (upper bound: half) is assumed to grow with the square
    of the length. The lower bound counts half of it; on a GPU, or without a clear fit, it is zero.

    What looks alike
    ----------------
    A model that skips padding, for example by packed sequences, takes longer with more real
    positions and is not reported. Nor is a step whose time does not depend on padding.

    What to do
    ----------
    Pad to the longest sample of each batch, group samples of similar length, or pack sequences.

    References
    ----------
    allenai/open-instruct#1445 (padding to the maximum took 2.5 times as long);
    Lightning-AI/lit-llama#103; Hugging Face, "Padding and truncation".
    """
    padding = find_padding(facts)
    if padding is None or padding.skipped:
        return None
    if padding.share < LEAST_PADDING or padding.batches < LEAST_BATCHES:
        return None
    low, expected, high = padding.cost or _cost_by_share(facts, padding)
    if high < LEAST_SHARE:
        return None
    fitted = padding.cost is not None or padding.paid is not None
    method = "share of padding" if padding.cost is None else STEPS
    return Proof(
        headline=f"{padding.share:.0%} of each batch is padding{_describe_cost(padding)}",
        predicted=from_gains((low, expected, high), f"{method}, without the padding"),
        evidence=_padding_evidence(padding),
        confidence=CONFIDENCE[padding.told_by] if fitted else 0.5,
        where=_padding_places(facts),
        facts=DeviceFacts(beyond_longest=padding.beyond_longest / padding.share, expected=expected),
    )


def _cost_by_share(facts: Facts, padding: Padding) -> tuple[float, float, float]:
    """Share of the step that padding costs, from its share of positions alone."""
    work = facts.bucket_share("compute")
    if not padding.constant:
        low, expected, high = (part * padding.share * work for part in UNFITTED)
        return low, expected, high
    if facts.on_cpu:
        work -= facts.share_of(facts.kernel_launching.optimizer & facts.time_of("compute"))
    least, likely = padding.paid or (LENGTHS[1] if padding.told_by == LENGTHS[0] else UNKNOWN)
    squared = 1.0 - (1.0 - padding.share) ** 2
    expected, high = (part * squared + (1.0 - part) * padding.share for part in SQUARED)
    low = DEPENDS * least * padding.share * work if facts.on_cpu else 0.0
    return low, likely * expected * work, high * work


def _describe_cost(padding: Padding) -> str:
    if padding.cost is None:
        return ""
    if not padding.cost[1]:
        return ", at no measurable cost per step"
    return f" and costs {padding.cost[1]:.0%} of the step"


def _padding_evidence(padding: Padding) -> tuple[Evidence, ...]:
    beyond = padding.beyond_longest / padding.share
    listed = (
        ("padded positions", padding.share),
        ("share of padding beyond the longest sample of its batch", beyond),
    )
    source, samples = SOURCES[padding.told_by], padding.batches
    evidence = [make_evidence(*row, "ratio", samples=samples, source=source) for row in listed]
    if padding.cost is not None:
        low, middle, high = padding.cost
        evidence += [
            make_evidence("cost of padding, share of step", middle, "ratio", source="fit"),
            make_evidence("standard error of this cost", (high - low) / 4, "ratio", source="fit"),
        ]
    return tuple(evidence)


def _padding_places(facts: Facts) -> tuple[Place, ...]:
    """Where batches are padded: the user's collate function, else the dataset, else the loop."""
    loaders = facts.timeline.loading.loaders
    frames = [loader.collating for loader in loaders] + [loader.making for loader in loaders]
    for text in frames + [loader.asked for loader in loaders]:
        place = frame_place(text or "", facts.rank)
        if place is not None and not in_library(place):
            return (place,)
    return ()
