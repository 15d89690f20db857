"""Load batches in no more worker processes than keep the cores busy."""

from __future__ import annotations

from whyidle.fixes._crowd import excess
from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("cpu-oversubscription", consent="rounding")
def fewer_workers(proof: Proof) -> Proposal | None:
    """Fewer DataLoader workers, as many as keep the cores busy: more of them only take turns, with
    each other and with the training process. Random augmentation is drawn in other workers, so its
    random numbers come in another order."""
    edits = excess(proof)
    if [one.knob for one in edits] != ["loader.workers"]:
        return None
    return Proposal(
        summary=f"DataLoader(..., num_workers={edits[0].value}): no more workers than keep the "
        "cores busy",
        edits=edits,
        risk="set it anew with more cores",
        automatic=True,
    )
