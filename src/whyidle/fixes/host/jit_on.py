"""Compile functions that JAX is configured to run uncompiled."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import HostFacts


@fix("debug-mode-left-on", consent="rounding")
def jit_on(proof: Proof) -> Proposal | None:
    """Ignore ``jax_disable_jit``. Fused operators round otherwise. Declines for other modes."""
    if proof.get_facts(HostFacts).mode != "jax_disable_jit":
        return None
    return Proposal(
        edits=(Edit(knob="jax.disable_jit", value=False, was=True),),
        risk="leave it on while somebody debugs with it; prints inside the step come only once",
    )
