"""Keep what a stage of tf.data makes in memory."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InputFacts


@fix("uncached-pipeline", consent="none")
def cached_stage(proof: Proof) -> Proposal | None:
    """Cache what the stage with most of the work makes. The first epoch fills the cache."""
    line = proof.get_facts(InputFacts).line
    risk = "the decoded dataset must fit into memory; an epoch that is left early fills no cache"
    if not line:
        return Proposal(summary="cache what the stage makes", risk=risk, automatic=False)
    return Proposal(edits=(Edit(knob="tfdata.cache", value=line),), risk=risk)
