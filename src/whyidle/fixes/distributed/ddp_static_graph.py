"""Search for unused parameters once instead of in every step."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import TRAINING, Proposal, fix
from whyidle.model.proof_facts import DistributedFacts


@fix("ddp-config-overhead", consent="rounding", kinds=TRAINING)
def ddp_static_graph(proof: Proof) -> Proposal | None:
    """Search for unused parameters in the first step only. Automatic where the framework's own log
    always shows the same bytes of unused parameters, advice where it does not show them. Declines
    where all are used, which needs no search, or where their use varies. If it does later, the
    framework ends the job with an error, or learns from gradients that were not exchanged."""
    facts = proof.get_facts(DistributedFacts)
    if not facts.walks or facts.all_used:
        return None
    return Proposal(
        summary=""
        if facts.same_unused
        else "if the same parameters are unused in every step: {edits}",
        edits=(Edit(knob="ddp.static_graph", value=True, was=False),),
        predicted=facts.predicted_walks,
        risk="fails if the used parameters change from step to step",
        automatic=facts.same_unused,
    )
