"""Advice on what a job asks of its scheduler."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Predicted
from whyidle.model.fix import advice
from whyidle.model.proof_facts import AllocationFacts

SAME_SPEED = Predicted(speedup=1.0, low=1.0, high=1.0, method="frees GPUs, same speed")


def _request_cores(proof: Proof) -> str:
    facts = proof.get_facts(AllocationFacts)
    cheaper = f"{'one thread per worker and ' * (facts.threads > 1)}cheaper or cached preprocessing"
    if facts.limit:
        how = f"remove the limit on the job's cores ({facts.limit}, set by {facts.origin})"
        return f"{how}; until then, use {cheaper}"
    return (
        f"first use {cheaper}; if that is not enough, request more CPU cores per GPU "
        "(--cpus-per-task, CPU limits of the container)"
    )


def _request_gpus(proof: Proof) -> str:
    used = proof.get_facts(AllocationFacts).used
    return f"request {used} GPU{'s' if used != 1 else ''}, or run other jobs on the rest"


ADVICE = (
    advice(
        *("more-cores", "cpu-starved-allocation"),
        title="Request more cores",
        doc="Only the scheduler can grant cores; the job itself can only need fewer.",
        summary=_request_cores,
        risk="none",
    ),
    advice(
        *("one-process-per-gpu", "idle-allocated-gpu"),
        title="Use all visible GPUs",
        doc="One process per GPU. The global batch grows with them, which may change learning.",
        summary=lambda proof: (
            f"start {proof.get_facts(AllocationFacts).listed} processes, one per GPU, and train "
            "data-parallel"
        ),
        consent="convergence",
        risk="a larger global batch may need another learning rate; others may use these GPUs",
    ),
    advice(
        *("release-when-done", "interactive-or-unreleased"),
        title="Release the device when nothing runs on it",
        doc="End the process, or move interactive work elsewhere. whyidle never ends a process.",
        summary="end the process after the last save; shut down idle notebook kernels; explore and "
        "debug on a machine without a GPU",
        risk="none, once everything is saved",
        faster=False,
    ),
    advice(
        *("released-gpus", "idle-allocated-gpu"),
        title="Release unused GPUs",
        doc="Request as many GPUs as the job uses.",
        summary=_request_gpus,
        predicted=lambda _: SAME_SPEED,
        risk="none for this job",
    ),
    advice(
        *("smaller-gpu", "gpu-too-big-for-job"),
        title="Use a smaller GPU or a part of one",
        doc="This frees hardware for others and does not make the job faster.",
        summary="use a MIG slice or a smaller GPU, or run several jobs on this one",
        risk="a slice has less memory",
    ),
)
