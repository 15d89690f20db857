"""No more workers and threads than cores, all at once."""

from __future__ import annotations

from whyidle.fixes._crowd import excess
from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("cpu-oversubscription", consent="rounding")
def threads_to_cores(proof: Proof) -> Proposal | None:
    """As many DataLoader workers as keep the cores busy, one thread each, and no more threads of
    the training process than cores that they leave it, where more than one of these is too many:
    fewer of the one alone leave the others to crowd the cores, and bring nothing. Random
    augmentation is drawn in other workers, and sums over several threads round otherwise."""
    edits = excess(proof)
    if len(edits) < 2:
        return None
    return Proposal(edits=edits, risk="set them anew with more cores", automatic=True)
