"""Reduce workers and threads to the number of cores together."""

from __future__ import annotations

from whyidle.fixes._core_usage import excess_edits
from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("cpu-oversubscription", consent="rounding")
def threads_to_cores(proof: Proof) -> Proposal | None:
    """As many loader workers as keep the cores busy, one thread each, and no more threads of the
    training process than cores that remain. Proposed where more than one of these is too high:
    reducing one alone leaves the others crowding the cores. Random augmentation moves to other
    workers, and sums over several threads round differently."""
    edits = excess_edits(proof)
    if len(edits) < 2:
        return None
    return Proposal(edits=edits, risk="with more cores, set them again", automatic=True)
