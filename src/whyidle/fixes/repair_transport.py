"""Give collectives their fast path."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("nccl-transport-fallback", consent="none")
def repair_transport(proof: Proof) -> Proposal | None:
    """Use NCCL for GPU tensors, over the link that the hardware has."""
    if proof.facts.get("backend") == "gloo":
        summary = 'torch.distributed.init_process_group("nccl") for GPU tensors'
    else:
        summary = (
            "run once with NCCL_DEBUG=INFO and look for NET/Socket or disabled P2P; unset "
            "NCCL_P2P_DISABLE and NCCL_SHM_DISABLE, start containers with --ipc=host"
        )
    return Proposal(
        summary=summary,
        risk="a path that is forced but broken hangs: try it on a small job first",
        automatic=False,
    )
