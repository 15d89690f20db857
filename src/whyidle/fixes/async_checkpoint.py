"""Write checkpoints in a thread."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InterruptionFacts


@fix("sync-checkpoint", consent="none")
def async_checkpoint(proof: Proof) -> Proposal | None:
    """Copy the state to host memory at once, and write the copy in a thread. The same bytes are
    saved, a little later. On a CPU job this gains the time that saving waits for the disk, and
    little of what it computes."""
    return Proposal(
        summary="torch.distributed.checkpoint.async_save (or copy the state to the CPU and save "
        "the copy in a thread); with Lightning plugins=[AsyncCheckpointIO()]",
        edits=(Edit(knob="checkpoint.asynchronous", value=True, was=False),),
        predicted=proof.get_facts(InterruptionFacts).beside,
        risk="host memory for one more copy of the state; the file is complete only later, and a "
        "job that is killed meanwhile keeps the one before",
    )
