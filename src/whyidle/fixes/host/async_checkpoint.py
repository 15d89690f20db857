"""Write checkpoints in a thread."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import TRAINING, Proposal, fix
from whyidle.model.proof_facts import InterruptionFacts


@fix("sync-checkpoint", consent="none", kinds=TRAINING)
def async_checkpoint(proof: Proof) -> Proposal | None:
    """Copy the state to host memory and write the copy in a thread. The file has the same bytes and
    is complete a little later. On a CPU job this recovers the time in which saving waits for the
    disk, and little of the time in which it computes."""
    return Proposal(
        summary="copy the state to host memory and save the copy in a thread",
        edits=(Edit(knob="checkpoint.asynchronous", value=True, was=False),),
        predicted=proof.get_facts(InterruptionFacts).beside,
        risk="needs host memory for one more copy of the state; the file is complete only later, "
        "and a job that is killed before that keeps the previous checkpoint",
    )
