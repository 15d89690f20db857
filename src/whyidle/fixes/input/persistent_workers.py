"""Keep loader workers between epochs."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix


@fix("worker-restart-per-epoch", consent="rounding")
def persistent_workers(_proof: Proof) -> Proposal | None:
    """Keep workers between epochs. They are seeded once instead of per epoch, so random
    augmentation comes in another order."""
    return Proposal(
        edits=(Edit(knob="loader.persistent_workers", value=True, was=False),),
        risk="workers hold their memory between epochs, and do not see changes that the loop makes "
        "to the dataset per epoch (set_epoch, new negatives, another transform)",
    )
