"""Give the job more cores."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("cpu-starved-allocation", consent="none")
def more_cores(proof: Proof) -> Proposal | None:
    """Only the scheduler can grant cores; what the job can do itself is to need fewer."""
    threads = (
        "torch.set_num_threads(1) in workers and " if proof.facts.get("threads", 1) > 1 else ""
    )
    return Proposal(
        summary="ask for more CPU cores per GPU (--cpus-per-task, cpu limits of the container); "
        f"until then {threads}cheaper or cached preparation",
        risk="none",
        automatic=False,
    )
