"""Write checkpoints beside the training."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix


@fix("sync-checkpoint", consent="none")
def async_checkpoint(proof: Proof) -> Proposal | None:
    """Copy the state to host memory, go on, and write it from another process: a thread would
    compete for the interpreter. The same bytes are saved, a little later. On a CPU job it wins
    what saving waits for, and little of what it works."""
    return Proposal(
        summary="torch.distributed.checkpoint.async_save (or copy the state to the CPU and save it "
        "from another process); with Lightning plugins=[AsyncCheckpointIO()]",
        edits=(Edit(knob="checkpoint.asynchronous", value=True, was=False),),
        predicted=proof.facts.get("beside"),
        risk="host memory for one more copy of the state; the file is complete only later",
    )
