"""Make batches in a thread beside the step."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InputFacts

AHEAD = 2
"""one batch for the next step, and one to smooth uneven ones"""


@fix("slow-input-pipeline", consent="rounding")
def batches_ahead(proof: Proof) -> Proposal | None:
    """Let a thread ask the iterator of a data library, two batches ahead, in the same order: by
    the library's own prefetching (Grain's ``ReadOptions``, DALI's ``prefetch_queue_depth``) where
    it has one, or by a queue. At best the step takes as long as the longer of both."""
    facts = proof.get_facts(InputFacts)
    if facts.beside is None:
        return None
    return Proposal(
        edits=(Edit(knob="iterator.ahead", value=AHEAD, was=0),),
        predicted=facts.beside,
        risk="transforms run beside the step: numbers that both draw from one generator come in "
        "another order, and where the CPU is the device they take its cores",
    )
