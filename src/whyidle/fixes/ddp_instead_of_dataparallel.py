"""One process per GPU."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("dataparallel-instead-of-ddp", consent="rounding")
def ddp_instead_of_dataparallel(proof: Proof) -> Proposal | None:
    """Replace DataParallel by DistributedDataParallel. Needs changes that only a person can make:
    sampler, logging and saving per rank."""
    devices = int(proof.facts.get("devices", 2))
    return Proposal(
        summary=f"start with `torchrun --nproc-per-node={devices} train.py`, wrap the model in "
        "DistributedDataParallel, sample with DistributedSampler, save and log on rank 0",
        risk="batch normalisation sees each GPU's share of the batch, as before; seeds and the "
        "order of samples change",
        automatic=False,
    )
