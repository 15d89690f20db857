"""Use no more loader workers than keep the cores busy."""

from __future__ import annotations

from whyidle.fixes._core_usage import excess_edits
from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("cpu-oversubscription", consent="rounding")
def fewer_workers(proof: Proof) -> Proposal | None:
    """Reduce the loader's workers to as many as keep the cores busy: further workers only compete
    with each other and with the training process. Random augmentation moves to other workers, so
    its random numbers come in another order."""
    edits = excess_edits(proof)
    if [edit.knob for edit in edits] != ["loader.workers"]:
        return None
    return Proposal(
        summary="{edits}: no more workers than keep the cores busy",
        edits=edits,
        risk="with more cores, set it again",
        automatic=True,
    )
