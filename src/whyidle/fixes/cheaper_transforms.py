"""Make preparing data cheaper."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix(
    "heavy-cpu-transform",
    "repeated-deterministic-preprocessing",
    "dataloader-no-workers",
    consent="numerics",
)
def cheaper_transforms(proof: Proof) -> Proposal | None:
    """Cheaper operations in a better order, or batched on the device where it has time to spare.
    Interpolation differs between libraries. The device is only proposed where it computes for
    less than 70 % of the step: moving work to a busy GPU makes the step longer. Not where looks
    show no library that decodes, or one that reads; nor for a loader without workers whose wait
    they are expected to hide."""
    unneeded = "cheaper" in proof.facts and proof.facts["cheaper"] is None
    if unneeded or proof.facts.get("storage") or proof.facts.get("media") is False:
        return None
    busy = float(proof.facts.get("compute", 1.0))
    where = ", or in batches on the GPU (torchvision.transforms.v2, DALI)" if busy < 0.7 else ""
    return Proposal(
        summary="decode at reduced size, crop before resizing, cache what is the same in every "
        f"epoch{where}",
        predicted=proof.facts.get("cheaper"),
        risk="interpolation differs between libraries; caching random augmentation freezes it",
        automatic=False,
    )
