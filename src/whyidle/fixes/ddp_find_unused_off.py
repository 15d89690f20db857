"""Spare DistributedDataParallel the search for unused parameters."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DistributedFacts


@fix("ddp-config-overhead", consent="rounding")
def ddp_find_unused_off(proof: Proof) -> Proposal | None:
    """Leave out the search for unused parameters. Applied where PyTorch's own log says that the
    search found none; where the recording does not say so it is advice. Should a parameter go
    unused later, PyTorch ends the job with an error that names the option. More than two ranks
    form their sums in another order, as buckets are then arranged anew after the first step."""
    facts = proof.get_facts(DistributedFacts)
    if not facts.walks:
        return None
    return Proposal(
        summary="DistributedDataParallel(model, find_unused_parameters=False)",
        edits=(Edit(knob="ddp.find_unused_parameters", value=False, was=True),),
        predicted=facts.predicted_walks,
        risk="PyTorch raises an error in the first step after one in which a parameter got no "
        "gradient",
        automatic=facts.all_used,
    )
