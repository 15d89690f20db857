"""Put transforms that make samples smaller first."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Predicted
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InputFacts


@fix("heavy-cpu-transform", consent="none")
def cheap_transforms_first(proof: Proof) -> Proposal | None:
    """A crop before the transforms that treat each pixel alone spares work and gives the same
    samples. Which transforms may change places only their author knows, so this is advice, given
    where the dataset holds a list of several transforms. No recording tells what each of them
    takes, so no gain is promised."""
    if not proof.get_facts(InputFacts).chained:
        return None
    return Proposal(
        summary="in the list of transforms put the crop or resize before the costly transforms "
        "that treat each pixel alone",
        risk="a transform whose result depends on what is cut away must stay ahead of the cut",
        predicted=Predicted(
            speedup=1.0,
            low=1.0,
            high=max(1.0, proof.predicted.high),
            method="nothing is promised: the recording does not time single transforms",
        ),
        automatic=False,
    )
