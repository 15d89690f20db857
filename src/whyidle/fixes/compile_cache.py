"""Keep compiled code on a disk that survives the job."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InterruptionFacts


@fix("compile-autotune-warmup", consent="none")
def compile_cache(proof: Proof) -> Proposal | None:
    """Let the next start find what this one compiled. Helps where a compiler was seen at work, not
    where only kernels were loaded."""
    facts = proof.get_facts(InterruptionFacts)
    if not facts.compiler:
        return None
    return Proposal(
        summary="set TORCHINDUCTOR_CACHE_DIR and TRITON_CACHE_DIR to a folder that outlives jobs",
        edits=(Edit(knob="compile.cache", value="persistent"),),
        predicted=facts.cached,
        risk="a cache shared by different versions must be cleared when they change",
    )
