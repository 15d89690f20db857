"""Treat what holds up the late rank."""

from __future__ import annotations

import shlex

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("late-rank", consent="none")
def explain_late_rank(proof: Proof) -> Proposal | None:
    """Look at the late rank by itself, or at what all ranks do at different times."""
    if proof.facts.get("constant"):
        source = shlex.quote(str(proof.facts.get("source")))
        summary = f"treat what holds that rank up; to see it: whyidle explain {source}"
    else:
        summary = (
            "make rare work happen on all ranks in the same step: gc.disable() with a gc.collect() "
            "every few hundred steps, logging and checkpoints at common steps"
        )
    return Proposal(summary=summary, risk="", automatic=False)
