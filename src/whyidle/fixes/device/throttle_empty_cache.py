"""Empty the memory cache rarely."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import MemoryFacts

EVERY = 500
"""steps"""


@fix("allocator-thrash", consent="none")
def throttle_empty_cache(proof: Proof) -> Proposal:
    """Empty the device's memory cache every few hundred steps at most. Automatic only where the
    recording shows the calls."""
    seen = proof.get_facts(MemoryFacts).emptied
    return Proposal(
        summary=f"empty the memory cache at most every {EVERY} steps"
        + ("" if seen else ", if the loop empties it"),
        edits=(Edit(knob="memory.empty_cache_every", value=EVERY, was=1),) if seen else (),
        risk="peak memory rises; memory runs out where the call was needed",
        automatic=seen,
    )
