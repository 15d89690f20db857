"""Take several steps in one call."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import HostFacts


@fix("short-step-calls", consent="none")
def steps_per_call(proof: Proof) -> Proposal | None:
    """Take several steps of ``fit`` in one call of its function. Numbers stay the same. At run time
    it declines where a callback looks at every batch, where ``steps_per_epoch`` is not a multiple,
    and in Keras before 3.9, which cannot end an epoch within a call."""
    steps = proof.get_facts(HostFacts).calls
    if steps is None or steps < 2:
        return None
    return Proposal(
        edits=(Edit(knob="keras.steps_per_execution", value=round(steps), was=1),),
        risk="the progress bar and callbacks for batches see one batch per call; a step that fails "
        "is reported at the end of its call",
    )
