"""Judgement of an imagined job, and of a prediction by its cured twin."""

from __future__ import annotations

from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.model.cause import Proof
from whyidle.model.timeline import Timeline
from whyidle.testing import contracts
from whyidle.testing.builder import Builder
from whyidle.testing.recorded_job import RecordedJob


def judge(cause: str, *jobs: Builder | RecordedJob | Timeline) -> Proof | None:
    """Return the cause's proof over the ranks of a job; None also if it abstains."""
    declared = catalog.load_causes()[cause]
    recorded = [job if isinstance(job, Timeline) else job.timeline() for job in jobs]
    proof = contracts.run_cause(declared, recorded)
    if proof is not None:
        contracts.check_proof(declared, proof)
    return proof


def judge_all(cause: str, timelines: list[Timeline]) -> Proof | None:
    """Return the proof over all ranks of a job, checked to need all of its evidence."""
    declared = catalog.load_causes()[cause]
    proof = contracts.run_cause(declared, timelines)
    if proof is not None:
        contracts.check_proof(declared, proof)
        contracts.check_abstains(declared, timelines)
    return proof


def twin_speedup(sick: Builder | RecordedJob, cured: Builder | RecordedJob) -> float:
    """Return the speed-up of the cured twin's steady step."""
    return Facts(sick.timeline()).step_s / Facts(cured.timeline()).step_s


def covers(proof: Proof, speedup: float, slack: float = 0.02) -> bool:
    """Return whether the predicted interval contains the measured speed-up."""
    predicted = proof.predicted
    return predicted.low * (1 - slack) <= speedup <= predicted.high * (1 + slack)
