"""Copy the next batch while the present one is computed."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import TransferFacts


@fix("pageable-h2d-copy", "blocking-h2d-copy", consent="none")
def device_prefetch(proof: Proof) -> Proposal | None:
    """Copy the next batch on a second stream, from pinned memory, while the present one is
    computed. Worth more than pinning alone where the copy itself is long. Applied at run time, what
    the script moves is learned from the batch before and copied ahead from what workers have ready,
    so order and random numbers stay; without workers, pinned memory or free device memory it is
    not."""
    if proof.get_facts(TransferFacts).exposed < 0.01:
        return None
    return Proposal(
        summary="copy the next batch on a second stream while the present one is computed "
        "(pin_memory=True, one batch ahead)",
        edits=(
            Edit(knob="loader.pin_memory", value=True),
            Edit(knob="copy.non_blocking", value=True),
            Edit(knob="loader.device_prefetch", value=1, was=0),
        ),
        risk="one more batch of device memory; a batch must not be changed while it is copied",
    )
