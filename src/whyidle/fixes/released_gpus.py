"""Give back GPUs that are not used."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Predicted
from whyidle.model.fix import Proposal, fix


@fix("idle-allocated-gpu", consent="none")
def released_gpus(proof: Proof) -> Proposal | None:
    """Ask for as many GPUs as the job uses."""
    used = proof.facts.get("used")
    return Proposal(
        summary=f"ask for {used} GPU{'s' if used != 1 else ''}, or run other jobs on the rest",
        predicted=Predicted(speedup=1.0, low=1.0, high=1.0, method="frees GPUs, same speed"),
        risk="none for this job",
        automatic=False,
    )
