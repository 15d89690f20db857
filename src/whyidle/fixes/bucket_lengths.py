"""Bring batches to a few lengths."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix


@fix("recompilation-storm", "allocator-thrash", consent="rounding")
def bucket_lengths(_: Proof) -> Proposal:
    """Round lengths up to a few sizes, so that compiled code and cached memory fit again. Not to
    the maximum: computing on padding can cost more than it saves."""
    return Proposal(
        summary="pad batches to the next of a few lengths (for example powers of two), where their "
        "lengths change; do not pad everything to the maximum",
        edits=(Edit(knob="collate.length_buckets", value="powers of two", was=None),),
        risk="computing on padding; masks must be right",
        automatic=False,
    )
