"""Advice on what a job asks of its scheduler."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Predicted
from whyidle.model.fix import advice
from whyidle.model.proof_facts import AllocationFacts

SAME_SPEED = Predicted(speedup=1.0, low=1.0, high=1.0, method="frees GPUs, same speed")


def _more_cores(proof: Proof) -> str:
    several = proof.get_facts(AllocationFacts).threads > 1
    threads = "torch.set_num_threads(1) in workers and " if several else ""
    return (
        "ask for more CPU cores per GPU (--cpus-per-task, cpu limits of the container); until then "
        f"{threads}cheaper or cached preparation"
    )


def _fewer_gpus(proof: Proof) -> str:
    used = proof.get_facts(AllocationFacts).used
    return f"ask for {used} GPU{'s' if used != 1 else ''}, or run other jobs on the rest"


ADVICE = (
    advice(
        *("more-cores", "cpu-starved-allocation"),
        title="Give the job more cores",
        doc="Only the scheduler can grant cores; what the job can do itself is to need fewer.",
        summary=_more_cores,
        risk="none",
    ),
    advice(
        *("one-process-per-gpu", "idle-allocated-gpu"),
        title="Use all visible GPUs",
        doc="One process per GPU. The global batch grows with them, which may change learning.",
        summary=lambda proof: (
            f"torchrun --nproc-per-node={proof.get_facts(AllocationFacts).listed} with "
            "DistributedDataParallel"
        ),
        consent="convergence",
        risk="a larger global batch may need another learning rate; others may use these GPUs",
    ),
    advice(
        *("release-when-done", "interactive-or-unreleased"),
        title="Give the device back when nothing runs on it",
        doc="End the process, or take interactive work elsewhere. whyidle ends nobody's work.",
        summary="end the process after the last save; shut idle notebook kernels down; explore and "
        "debug on a machine without the GPU",
        risk="none, once everything is saved",
        faster=False,
    ),
    advice(
        *("released-gpus", "idle-allocated-gpu"),
        title="Give back GPUs that are not used",
        doc="Ask for as many GPUs as the job uses.",
        summary=_fewer_gpus,
        predicted=lambda _: SAME_SPEED,
        risk="none for this job",
    ),
    advice(
        *("smaller-gpu", "gpu-too-big-for-job"),
        title="Use less of a GPU",
        doc="It frees hardware for others and makes nothing faster.",
        summary="use a MIG slice or a smaller GPU, or run several jobs on this one",
        risk="a slice has less memory",
    ),
)
