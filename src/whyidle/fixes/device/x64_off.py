"""Leave JAX's 64-bit types off."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DeviceFacts


@fix("double-precision", consent="numerics")
def x64_off(proof: Proof) -> Proposal | None:
    """Keep ``jax_enable_x64`` off, whatever the script asks for; a trial compares the losses.
    Declines for frameworks without such a switch."""
    if not proof.get_facts(DeviceFacts).switched:
        return None
    return Proposal(
        edits=(Edit(knob="jax.x64", value=False, was=True),),
        risk="compare the loss; keep sums of many steps, such as metrics, in 64 bits",
    )
