"""Look after the link."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("pcie-or-nvlink-degraded", consent="none")
def link_check(_proof: Proof) -> Proposal | None:
    """What the link does is for the machine's owner to change; the process can only be bound to the
    device's NUMA node."""
    return Proposal(
        summary="compare the link's present width and generation under load with their maximum "
        "(nvidia-smi -q); run under numactl --cpunodebind of the device's node",
        risk="none",
        automatic=False,
    )
