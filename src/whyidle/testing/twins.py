"""Judge one imagined job, and hold a prediction against its cured twin."""

from __future__ import annotations

from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.model.cause import Proof
from whyidle.model.timeline import Timeline
from whyidle.testing import contracts
from whyidle.testing.builder import Builder
from whyidle.testing.guest import Guest


def judge(cause: str, job: Builder | Guest) -> Proof | None:
    """The cause's answer; None also where it abstains."""
    declared = catalog.load_causes()[cause]
    timeline = job.timeline()
    proof = contracts.run_cause(declared, [timeline])
    if proof is not None:
        contracts.check_proof(declared, proof)
    return proof


def judge_all(cause: str, timelines: list[Timeline]) -> Proof | None:
    """The same over all ranks of a job; the cause needs all of its evidence."""
    declared = catalog.load_causes()[cause]
    proof = contracts.run_cause(declared, timelines)
    if proof is not None:
        contracts.check_proof(declared, proof)
        contracts.check_abstains(declared, timelines)
    return proof


def measured(sick: Builder | Guest, cured: Builder | Guest) -> float:
    """Speed-up of the cured twin's steady step."""
    return Facts(sick.timeline()).step_s / Facts(cured.timeline()).step_s


def covers(proof: Proof, speedup: float, slack: float = 0.02) -> bool:
    """Whether the predicted interval holds what was measured."""
    predicted = proof.predicted
    return predicted.low * (1 - slack) <= speedup <= predicted.high * (1 + slack)
