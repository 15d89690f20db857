"""Edits that bring workers and threads down to the number of cores."""

from __future__ import annotations

from whyidle.fixes._values import nearby_values
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.proof_facts import InputFacts


def excess_edits(proof: Proof) -> tuple[Edit, ...]:
    """One edit for each number that is too high: the loader's workers, their threads, and the
    threads of the training process."""
    facts = proof.get_facts(InputFacts)
    workers, was, threads, main = facts.workers, facts.was, facts.threads, facts.main
    edits = []
    if workers is not None and was is not None:
        among = nearby_values(workers, 1, was - 1) if workers else (0, 1)[:was]
        edits.append(Edit(knob="loader.workers", value=workers, was=was, among=among))
    if was is not None and threads not in (1, None):
        edits.append(Edit(knob="loader.worker_threads", value=1, was=threads))
    if was is not None and main is not None:
        edits.append(Edit(knob="torch.num_threads", value=main, was=facts.main_was))
    return tuple(edits)
