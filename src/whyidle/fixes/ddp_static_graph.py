"""Detect unused parameters once instead of in every step."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DistributedFacts


@fix("ddp-config-overhead", consent="rounding")
def ddp_static_graph(proof: Proof) -> Proposal | None:
    """Detect unused parameters in the first step alone, where the recording does not tell whether
    the search finds any. That is left to people: a model whose used parameters change from step to
    step ends with an error, or learns from gradients that were not exchanged."""
    facts = proof.get_facts(DistributedFacts)
    if not facts.walks or facts.all_used:
        return None
    return Proposal(
        summary="DistributedDataParallel(model, static_graph=True) where the same parameters are "
        "unused in every step",
        edits=(Edit(knob="ddp.static_graph", value=True, was=False),),
        predicted=facts.predicted_walks,
        risk="static_graph raises where the used parameters change from step to step",
        automatic=False,
    )
