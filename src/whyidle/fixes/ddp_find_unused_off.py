"""Spare DistributedDataParallel the search for unused parameters."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix


@fix("ddp-config-overhead", consent="rounding")
def ddp_find_unused_off(proof: Proof) -> Proposal | None:
    """Leave out the search for unused parameters, where it found none. A trial of some seconds
    cannot show that none ever goes unused, so under the plan every exchange is finished as the
    search would have it, should one do so later: with the same gradients, without an error, and
    told of. A script that is patched has no such guard. More than two ranks form their sums in
    another order, as buckets are then arranged anew after the first step."""
    if not proof.facts.get("walks"):
        return None
    return Proposal(
        summary="DistributedDataParallel(model, find_unused_parameters=False)",
        edits=(Edit(knob="ddp.find_unused_parameters", value=False, was=True),),
        predicted=proof.facts.get("predicted_walks"),
        risk="in a patched script PyTorch raises where a parameter gets no gradient after all; "
        "under the plan the exchange is finished all the same, and told of",
    )
