"""Much of what is computed is padding."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.padding import Padding, find_padding
from whyidle.analysis.source_places import frame_place, in_library
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.proof_facts import DeviceFacts

LEAST_PADDING = 0.05
"""share of padding that batches of similar lengths have anyway"""
LEAST_SHARE = 0.01
"""share of the step below which padding is not worth a word"""
UNKNOWN = (0.0, 1.0)
"""share of the work on padded positions that is done, where batches of one length do not tell:
careful, none (the model skips them); expected, all of it: a batch is padded so that layers can
compute on all of it"""
LENGTHS = (2, (0.0, 0.5))
"""the same where it is lengths that tell of padding: recurrent layers take them to skip it"""
DEPENDS = 0.5
"""share of the work outside the optimizer that depends on how many positions there are, at the
careful end"""
SQUARED = (0.2, 0.5)
"""share of the work that grows with the square of a length, expected and hopeful: attention is
``n / (n + 6 d)`` of a transformer's work, for ``n`` positions and a width of ``d``, so 18 % where
these are 1024 and 768; careful is none"""
UNFITTED = (0.0, 0.0, 1.0)
"""share of the work on padding that is wasted, where a longer run would tell: careful, expected and
hopeful"""
FEWEST = 3
STEPS = "steps fitted against real and padded positions"
TOLD_BY = {1: "masks", 2: "lengths", 3: "vectors of zeros", 4: "the number that rows end in",
           5: "an embedding's padding_idx"}  # fmt: skip
SURE = {1: 0.9, 2: 0.85, 3: 0.7, 4: 0.7, 5: 0.85}


@cause(
    "Much of each batch is padding",
    bucket="compute",
    needs=("device_time", "steady_steps", "batch_padding"),
)
def padding_waste(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Samples of different lengths are padded to a common one: to a fixed maximum, or to the longest
    of a batch whose lengths differ much.

    Why it costs
    ------------
    The model computes on padding as on anything else, and throws the result away.

    How it is detected
    ------------------
    In some batches real and padded positions are counted, from a mask, lengths, vectors of zeros or
    the number that rows end in; where no DataLoader hands batches over, from what an embedding of
    the model looked up and calls padding (on a CPU only). Where lengths change from batch to batch,
    the step's work is fitted against both, ``T = a + b real + c padding``: ``c`` is what padding
    costs, with its standard error; nothing is expected where it may be noise. Where all batches
    have one length, steps that take no longer when more of the batch is real pay for padding as for
    anything else: expected is its share of the work outside the optimizer, of which a fifth, at the
    hopeful end half, grows with the square of lengths; careful half of what the error of that fit
    leaves of its share: some work may not depend on lengths at all. Small kernels of a device other
    than the CPU do not, and there the careful end is nothing, as it is where steps do not tell.
    What rounds a batch's length up to a multiple of 8 is not counted.

    What looks alike
    ----------------
    A model that skips padding (packed sequences, attention over variable lengths) takes the longer,
    the more of a batch is real: it is not blamed. Nor is a step that does not depend on the
    padding. Steps of several batches are not told apart.

    What to do
    ----------
    Pad to the longest of each batch, not to a maximum; put samples of similar length into one
    batch; or pack sequences without padding.

    References
    ----------
    allenai/open-instruct#1445 (padding to the maximum took 2.5 times as long);
    Lightning-AI/lit-llama#103; Hugging Face, "Padding and truncation".
    """
    found = find_padding(facts)
    if found is None or found.skipped or found.share < LEAST_PADDING or found.batches < FEWEST:
        return None
    careful, expected, hopeful = found.cost or _of_share(facts, found)
    if hopeful < LEAST_SHARE:
        return None
    fitted = found.cost is not None or found.paid is not None
    method = "share of padding" if found.cost is None else STEPS
    return Proof(
        headline=f"{found.share:.0%} of each batch is padding{_describe_cost(found)}",
        low=careful,
        high=hopeful,
        predicted=from_gains((careful, expected, hopeful), f"{method}, without the padding"),
        evidence=_padding_evidence(found),
        confidence=SURE[found.told_by] if fitted else 0.5,
        where=_padding_places(facts),
        facts=DeviceFacts(beyond_longest=found.beyond_longest / found.share, expected=expected),
    )


def _of_share(facts: Facts, found: Padding) -> tuple[float, float, float]:
    """Share of the step that padding costs by its share of positions alone."""
    work = facts.bucket_share("compute")
    if not found.constant:
        careful, expected, hopeful = (part * found.share * work for part in UNFITTED)
        return careful, expected, hopeful
    if facts.on_cpu:
        work -= facts.share_of(facts.launching.optimizer & facts.time_of("compute"))
    least, likely = found.paid or (LENGTHS[1] if found.told_by == LENGTHS[0] else UNKNOWN)
    squared = 1.0 - (1.0 - found.share) ** 2
    expected, hopeful = (part * squared + (1.0 - part) * found.share for part in SQUARED)
    return (
        DEPENDS * least * found.share * work if facts.on_cpu else 0.0,
        likely * expected * work,
        hopeful * work,
    )


def _describe_cost(found: Padding) -> str:
    if found.cost is None:
        return ""
    if not found.cost[1]:
        return ", which the steps do not show to cost anything"
    return f", on which {found.cost[1]:.0%} of the step is spent"


def _padding_evidence(found: Padding) -> tuple[Evidence, ...]:
    source = TOLD_BY[found.told_by]
    rows = [
        make_evidence(
            "padding, share of positions", found.share, "ratio", samples=found.batches,
            source=source,
        ),
        make_evidence(
            "of it beyond the longest of each batch", found.beyond_longest / found.share, "ratio",
            samples=found.batches, source=source,
        ),
    ]  # fmt: skip
    if found.cost is not None:
        low, middle, high = found.cost
        rows += [
            make_evidence("what padding costs, share of step", middle, "ratio", source="fit"),
            make_evidence("its standard error", (high - low) / 4, "ratio", source="fit"),
        ]
    return tuple(rows)


def _padding_places(facts: Facts) -> tuple[Place, ...]:
    """Where batches are padded: the user's collate function, else the dataset, else the loop."""
    loaders = facts.timeline.loading.loaders
    told = [one.collating for one in loaders] + [one.making for one in loaders]
    for text in told + [one.asked for one in loaders]:
        place = frame_place(text or "", facts.rank)
        if place is not None and not in_library(place):
            return (place,)
    return ()
