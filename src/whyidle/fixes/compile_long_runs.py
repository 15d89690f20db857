"""Compile only what runs for long."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix

LEAST = 1.2
"""expected speed-up from which on a run is better off without: how much faster compiled steps are
is not known, and a run that goes on makes up for its start"""


@fix("compile-autotune-warmup", consent="rounding")
def compile_long_runs(proof: Proof) -> Proposal | None:
    """Leave the model as it is where a run is over before compiling it pays. Declines where the
    rest of the run would take as long as compiling does. Advice: only people know how long the next
    run will be."""
    eager = proof.facts.get("eager")
    if eager is None or eager.speedup < LEAST:
        return None
    return Proposal(
        summary="without torch.compile in runs as short as this one, such as tests and trials",
        predicted=eager,
        risk="every step takes longer: a run of many more steps loses by it",
        automatic=False,
    )
