"""Run the model on the GPU."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("training-on-cpu", consent="rounding")
def move_to_device(_proof: Proof) -> Proposal | None:
    """Move model and batches to the device, and make sure that this process can see it."""
    return Proposal(
        summary="model.to('cuda') and batch.to('cuda'); check CUDA_VISIBLE_DEVICES and "
        "torch.cuda.is_available()",
        risk="device memory must hold the model",
        automatic=False,
    )
