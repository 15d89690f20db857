"""Empty the cache rarely."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import MemoryFacts

EVERY = 500


@fix("allocator-thrash", consent="none")
def throttle_empty_cache(proof: Proof) -> Proposal:
    """Call ``torch.cuda.empty_cache()`` and ``gc.collect()`` every few hundred steps at most.
    Applied only where the recording shows the calls."""
    seen = proof.get_facts(MemoryFacts).emptied
    return Proposal(
        summary=f"torch.cuda.empty_cache() and gc.collect() at most every {EVERY} steps"
        + ("" if seen else ", where the loop calls them"),
        edits=(Edit(knob="memory.empty_cache_every", value=EVERY, was=1),) if seen else (),
        risk="peak memory rises; where the call was needed, memory runs out",
        automatic=seen,
    )
