"""Load batches in no more worker processes than keep the cores busy."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.treatment import Plan, treatment
from whyidle.treatments._crowd import excess


@treatment("cpu-oversubscription", consent="rounding")
def fewer_workers(proof: Proof) -> Plan | None:
    """Fewer DataLoader workers, as many as keep the cores busy: more of them only take turns, with
    each other and with the training process. Random augmentation is drawn in other workers, so its
    random numbers come in another order."""
    edits = excess(proof)
    if [one.knob for one in edits] != ["loader.workers"]:
        return None
    return Plan(
        summary=f"DataLoader(..., num_workers={edits[0].value}): no more workers than keep the "
        "cores busy",
        edits=edits,
        risk="set it anew with more cores",
        automatic=True,
    )
