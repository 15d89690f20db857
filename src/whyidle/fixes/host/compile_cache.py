"""Keep compiled code on a persistent disk."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InterruptionFacts


@fix("compile-autotune-warmup", consent="none")
def compile_cache(proof: Proof) -> Proposal | None:
    """Let the next run reuse the code compiled by this one. Declines where no compiler ran and
    only kernels were loaded."""
    facts = proof.get_facts(InterruptionFacts)
    if not facts.compiler:
        return None
    return Proposal(
        summary="keep the compiler's caches in a folder that outlives the job",
        edits=(Edit(knob="compile.cache", value="persistent"),),
        predicted=facts.cached,
        risk="clear the cache when versions change",
    )
