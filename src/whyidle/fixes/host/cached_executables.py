"""Load what is compiled again and again from a folder."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import HostFacts


@fix("recompilation-storm", consent="none")
def cached_executables(proof: Proof) -> Proposal | None:
    """Keep JAX's persistent compilation cache, from which a function that is defined in the loop is
    loaded instead of compiled; it is still traced in every step. Declines where a function is
    compiled for other arguments each time: the first start would gain nothing."""
    facts = proof.get_facts(HostFacts)
    if facts.renewed not in ("function", "object"):
        return None
    return Proposal(
        edits=(Edit(knob="jax.compilation_cache", value="~/.cache/jax"),),
        predicted=facts.cached,
        risk="the folder grows; defining the function once also saves tracing it",
    )
