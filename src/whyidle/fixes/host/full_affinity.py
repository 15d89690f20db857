"""Let loader workers use all cores of the command."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InputFacts


@fix("narrowed-cpu-affinity", consent="none")
def full_affinity(proof: Proof) -> Proposal:
    """Let workers use all cores that the command had when it started; the training process keeps
    its binding. Bindings that the script's own worker initialisation makes stay."""
    variables = proof.get_facts(InputFacts).variables or ()
    unset = f"unset {' and '.join(variables)}, or " if variables else ""
    return Proposal(
        summary=f"{unset}{{edits}}",
        edits=(Edit(knob="loader.full_affinity", value=True, was=False),),
        risk="none known: workers compute the same on any core",
    )
