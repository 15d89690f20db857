"""Update all parameters in one kernel."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import TRAINING, Proposal, fix
from whyidle.model.proof_facts import HostFacts

FUSED = frozenset({"Adam", "AdamW", "SGD", "Adagrad"})
"""optimizers with a fused implementation"""


@fix("unfused-optimizer", consent="rounding", kinds=TRAINING)
def fused_optimizer(proof: Proof) -> Proposal:
    """Use the optimizer's fused implementation, or ``foreach`` where there is none. The same
    mathematics with another order of rounding."""
    facts = proof.get_facts(HostFacts)
    switch = "fused" if facts.optimizer in FUSED else "foreach"
    return Proposal(
        summary=f"update all parameters of {facts.optimizer} in one kernel: {{edits}}",
        edits=(Edit(knob=f"optimizer.{switch}", value=True, was=False),),
        risk="all parameters must be floating-point"
        + ("" if facts.noun == "CPU" else f" and on the {facts.noun}"),
    )
