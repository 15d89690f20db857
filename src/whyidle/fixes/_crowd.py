"""What there is more of than cores, and what it should be."""

from __future__ import annotations

from whyidle.fixes._values import around
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.proof_facts import InputFacts


def excess(proof: Proof) -> tuple[Edit, ...]:
    """Of a loader's workers, their threads, and those of the training process beside them: each
    that is too many."""
    facts = proof.get_facts(InputFacts)
    workers, was, threads, main = facts.workers, facts.was, facts.threads, facts.main
    found = []
    if workers is not None and was is not None:
        among = around(workers, 1, was - 1)
        found.append(Edit(knob="loader.workers", value=workers, was=was, among=among))
    if was is not None and threads != 1:
        found.append(Edit(knob="loader.worker_threads", value=1, was=threads))
    if was is not None and main is not None:
        found.append(Edit(knob="torch.num_threads", value=main, was=facts.main_was))
    return tuple(found)
