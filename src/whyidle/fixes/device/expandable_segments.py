"""Use expandable memory segments."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import MemoryFacts


@fix("allocator-thrash", consent="none")
def expandable_segments(proof: Proof) -> Proposal | None:
    """Let segments of device memory grow in place, against fragmentation. Declines where the
    program itself empties the cache: then there is nothing to defragment."""
    if proof.get_facts(MemoryFacts).emptied:
        return None
    return Proposal(
        edits=(Edit(knob="env.PYTORCH_CUDA_ALLOC_CONF", value="expandable_segments:True"),),
        risk="not supported on every platform, nor for tensors shared between processes",
    )
