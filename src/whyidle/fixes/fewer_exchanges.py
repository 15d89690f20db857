"""Exchange gradients less often."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DistributedFacts

BATCHES = 2


@fix("exposed-gradient-comm", consent="convergence")
def fewer_exchanges(proof: Proof) -> Proposal | None:
    """Add up the gradients of two batches before they are exchanged: half of the exchanges, and
    steps twice as large. For ranks that compute on CPUs, where PyTorch sends no fewer bytes
    (``bf16_compress_hook`` wants NCCL or XCCL, and casting costs what is saved)."""
    facts = proof.get_facts(DistributedFacts)
    if not facts.on_cpu or facts.kind != "all_reduce":
        return None
    return Proposal(
        summary=f"accumulate the gradients of {BATCHES} batches, all but the last under "
        "`with model.no_sync():`, or take batches as much larger",
        edits=(Edit(knob="ddp.no_sync", value=BATCHES),),
        predicted=facts.fewer,
        risk="steps are as much larger and rarer: the learning rate may want a change",
        automatic=False,
    )
