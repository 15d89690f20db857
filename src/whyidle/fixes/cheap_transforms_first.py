"""Transforms that make samples smaller go first."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit, Predicted
from whyidle.model.fix import Proposal, fix


@fix("heavy-cpu-transform", consent="none")
def cheap_transforms_first(proof: Proof) -> Proposal | None:
    """A crop before what is done to each pixel spares work, and gives the same. Applied at run
    time, orders of a chain of transforms are tried with copies of its own samples, random numbers
    included, and the fastest is used that gave the same samples bit for bit; some are compared all
    along. Chains that write into what they are given, ``torch.nn.Sequential`` and chains that are
    called with several things at once are left alone; without a chain there is nothing to try."""
    if not proof.facts.get("chained"):
        return None
    return Proposal(
        summary="crop, or whatever else makes samples smaller, ahead of the transforms that treat "
        "each pixel alone",
        edits=(Edit(knob="dataset.transform_order", value=True, was=False),),
        risk="a transform whose result depends on what is cut away must stay ahead of the cut",
        predicted=Predicted(
            speedup=1.0,
            low=1.0,
            high=max(1.0, proof.predicted.high),
            method="nothing is promised: whether an order gives the same is seen as it is tried",
        ),
    )
