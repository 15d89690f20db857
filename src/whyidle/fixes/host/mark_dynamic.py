"""Compile once for all lengths."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import HostFacts


@fix("recompilation-storm", consent="rounding")
def mark_dynamic(proof: Proof) -> Proposal | None:
    """Mark the changing dimension as dynamic, so that one compiled model serves every length.
    Applied at run time, everything that the script compiles is compiled for every length.
    Declines for traced functions of TensorFlow, which have a switch of their own."""
    if proof.get_facts(HostFacts).traced:
        return None
    return Proposal(
        summary="{edits}, or mark only the changing dimension as dynamic",
        edits=(Edit(knob="model.compile_dynamic", value=True, was=None),),
        predicted=proof.get_facts(HostFacts).dynamic,
        risk="code for any length can be slower than code for a fixed one",
    )
