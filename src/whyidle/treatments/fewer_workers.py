"""Load batches in no more worker processes than keep the cores busy."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.treatment import Plan, treatment
from whyidle.treatments._values import around


@treatment("cpu-oversubscription", consent="rounding")
def fewer_workers(proof: Proof) -> Plan | None:
    """Fewer DataLoader workers, as many as keep the cores busy: more of them only take turns, with
    each other and with the training process. Random augmentation is drawn in other workers, so its
    random numbers come in another order."""
    workers, was = proof.facts.get("workers"), proof.facts.get("was")
    if workers is None or was is None:
        return None
    among = around(workers, 1, was - 1)
    return Plan(
        summary=f"DataLoader(..., num_workers={workers}): no more workers than keep the cores busy",
        edits=(Edit(knob="loader.workers", value=workers, was=was, among=among),),
        risk="set it anew with more cores",
        automatic=True,
    )
