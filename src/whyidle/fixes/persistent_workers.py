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
        summary="DataLoader(..., persistent_workers=True)",
        edits=(Edit(knob="loader.persistent_workers", value=True, was=False),),
        risk="memory of workers stays; a dataset that the loop changes per epoch (set_epoch, new "
        "negatives, another transform) stays in them as it was: then leave it out",
    )
