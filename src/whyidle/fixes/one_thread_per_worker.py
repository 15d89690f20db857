"""Let each loader worker compute with one thread."""

from __future__ import annotations

from whyidle.fixes._crowd import excess
from whyidle.fixes._values import around
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InputFacts


@fix("cpu-oversubscription", consent="rounding")
def one_thread_per_worker(proof: Proof) -> Proposal | None:
    """One thread per worker: the workers themselves are the parallelism. Sums over several threads
    round otherwise."""
    facts = proof.get_facts(InputFacts)
    if (own := facts.own) is not None:
        threads = facts.threads
        among = around(own, 1, None if threads is None else threads - 1)
        return Proposal(
            summary=f"torch.set_num_threads({own}), or OMP_NUM_THREADS={own} for the command",
            edits=(Edit(knob="torch.num_threads", value=own, was=threads, among=among),),
            risk="none on the cores that the job may use now; set it anew with more of them",
            automatic=True,
        )
    edits = excess(proof)
    if edits and [one.knob for one in edits] != ["loader.worker_threads"]:
        return None  # it is the workers that are too many, or more than their threads
    return Proposal(
        summary="in worker_init_fn: torch.set_num_threads(1), cv2.setNumThreads(0); "
        "OMP_NUM_THREADS=1 for other libraries",
        edits=(Edit(knob="loader.worker_threads", value=1, was=facts.threads),),
        risk="a single worker with genuine parallel work becomes slower",
        automatic=True,
    )
