"""Skip the search for unused parameters."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import TRAINING, Proposal, fix
from whyidle.model.proof_facts import DistributedFacts


@fix("ddp-config-overhead", consent="rounding", kinds=TRAINING)
def ddp_find_unused_off(proof: Proof) -> Proposal | None:
    """Turn off the search for unused parameters. Automatic where the framework's own log says that
    the search found none, advice otherwise. If a parameter goes unused later, the framework ends
    the job with an error that names the option. More than two ranks add in another order, because
    the buckets are rebuilt after the first step."""
    facts = proof.get_facts(DistributedFacts)
    if not facts.walks or facts.same_unused:
        return None
    return Proposal(
        edits=(Edit(knob="ddp.find_unused_parameters", value=False, was=True),),
        predicted=facts.predicted_walks,
        risk="the framework raises an error in the step after a parameter got no gradient",
        automatic=facts.all_used,
    )
