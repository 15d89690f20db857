"""Use one thread per loader worker."""

from __future__ import annotations

from whyidle.fixes._core_usage import excess_edits
from whyidle.fixes._values import nearby_values
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InputFacts


@fix("cpu-oversubscription", consent="rounding")
def one_thread_per_worker(proof: Proof) -> Proposal | None:
    """One thread per worker: the workers themselves provide the parallelism. Sums over several
    threads round differently."""
    facts = proof.get_facts(InputFacts)
    if (own := facts.own) is not None:
        threads = facts.threads
        among = nearby_values(own, 1, None if threads is None else threads - 1)
        return Proposal(
            summary=f"{{edits}}, or OMP_NUM_THREADS={own} for the command",
            edits=(Edit(knob="torch.num_threads", value=own, was=threads, among=among),),
            risk="with more cores, set it again",
            automatic=True,
        )
    edits = excess_edits(proof)
    if edits and [edit.knob for edit in edits] != ["loader.worker_threads"]:
        return None  # the workers themselves are too many, or more than their threads are
    return Proposal(
        summary="{edits}, cv2.setNumThreads(0), and OMP_NUM_THREADS=1 for other libraries",
        edits=(Edit(knob="loader.worker_threads", value=1, was=facts.threads),),
        risk="a single worker with parallel work of its own becomes slower",
        automatic=True,
    )
