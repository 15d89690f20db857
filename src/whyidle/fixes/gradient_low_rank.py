"""Exchange low-rank approximations of gradients."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DistributedFacts

WORTH = 1.1
"""least predicted speedup for which to learn from approximate gradients. PowerSGD's authors gain
where the exchange takes a large part of the step; healthy jobs keep a short tail of it, too"""


@fix("exposed-gradient-comm", consent="convergence")
def gradient_low_rank(proof: Proof) -> Proposal | None:
    """Approximate each matrix of gradients by two thin ones and add what that leaves out to the
    next step's (PowerSGD; Vogels et al., NeurIPS 2019). The first ten steps are exchanged whole.
    Declines where collectives are bound by latency or do not carry gradients, where less than a
    tenth would be gained, and on CPUs: PyTorch's hook waits for exchanges in the threads of gloo
    that carry them out, and hangs from two buckets on."""
    facts = proof.get_facts(DistributedFacts)
    if facts.on_cpu or not facts.is_large or facts.kind_share("all_reduce") < 0.5:
        return None
    if facts.low_rank is None or facts.low_rank.speedup < WORTH:
        return None
    return Proposal(
        summary="exchange two thin matrices in place of each matrix of gradients (PowerSGD)",
        edits=(Edit(knob="ddp.comm_hook", value="powersgd"),),
        predicted=facts.low_rank,
        risk="learns from approximate gradients: compare the loss over a whole training. PyTorch "
        "advises whole gradients for the first tenth of it. Takes the memory of the gradients once "
        "more; what was left out is lost at a restart unless the hook's state is saved",
    )
