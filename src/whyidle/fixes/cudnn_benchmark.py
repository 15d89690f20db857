"""Have cuDNN search for the fastest algorithms, or not."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DeviceFacts


@fix("cudnn-autotune-mismatch", consent="rounding")
def cudnn_benchmark(proof: Proof) -> Proposal | None:
    """Off where shapes are new in step after step, on where they never change. Another algorithm
    adds in another order, and which one a search finds may differ from run to run."""
    on = proof.get_facts(DeviceFacts).benchmark
    return Proposal(
        summary=f"torch.backends.cudnn.benchmark = {not on}",
        edits=(Edit(knob="torch.cudnn_benchmark", value=not on, was=on),),
        risk="the library's own choice may be slower for shapes that do recur"
        if on
        else "some memory to work in, and each new shape, as in evaluations, is searched for once",
    )
