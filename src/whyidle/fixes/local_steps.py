"""Average parameters every few steps instead of gradients in every step."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DistributedFacts

PERIOD = 4
"""steps from one average to the next, as in PyTorch's documentation of post-local SGD"""


@fix("exposed-gradient-comm", consent="convergence")
def local_steps(proof: Proof) -> Proposal | None:
    """Let every rank step by its own gradients and average the parameters every fourth step (local
    SGD; Lin et al., ICLR 2020), after ten steps with the usual exchange. Declines where collectives
    do not carry gradients of DistributedDataParallel."""
    facts = proof.get_facts(DistributedFacts)
    if facts.kind_share("all_reduce") < 0.5:
        return None
    return Proposal(
        edits=(Edit(knob="ddp.local_steps", value=PERIOD),),
        predicted=facts.quarter,
        risk="ranks differ between two averages, and so does what they save and evaluate; compare "
        "the loss over a whole training",
    )
