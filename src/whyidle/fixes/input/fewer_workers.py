"""Use no more loader workers than keep the cores busy."""

from __future__ import annotations

from whyidle.fixes._core_usage import excess_edits
from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InputFacts


@fix("cpu-oversubscription", "worker-handoff-bottleneck", consent="rounding")
def fewer_workers(proof: Proof) -> Proposal | None:
    """Reduce the loader's workers to as many as keep the cores busy: further workers only compete
    with each other and with the training process. Where making a batch takes less than taking one
    from a worker, use none; PyTorch then refuses ``persistent_workers`` and ``prefetch_factor``.
    Random augmentation moves to other workers, so its random numbers come in another order."""
    edits = excess_edits(proof)
    if [edit.knob for edit in edits] != ["loader.workers"]:
        return None
    facts, why = proof.get_facts(InputFacts), "no more workers than keep the cores busy"
    risk = "with more cores, set it again"
    if facts.workers == 0:
        why = "the training process makes a batch faster than it takes one from a worker"
        risk = "remove loader options that need workers; set it again if samples become slow"
    summary = "{edits}: " + why
    return Proposal(summary, edits=edits, predicted=facts.by_workers, risk=risk, automatic=True)
