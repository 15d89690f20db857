"""Turn cuDNN's algorithm search on or off."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DeviceFacts


@fix("cudnn-autotune-mismatch", consent="rounding")
def cudnn_benchmark(proof: Proof) -> Proposal | None:
    """Turn the search off where shapes keep changing, on where they never do. Another algorithm
    adds in another order, and the search may choose differently from run to run."""
    on = proof.get_facts(DeviceFacts).benchmark
    return Proposal(
        edits=(Edit(knob="torch.cudnn_benchmark", value=not on, was=on),),
        risk="the library's own choice may be slower for shapes that recur"
        if on
        else "needs workspace memory, and searches once per new shape, as in evaluation",
    )
