"""Need less memory of the host."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("host-memory-pressure", consent="none")
def less_host_memory(_proof: Proof) -> Proposal | None:
    """Each worker holds its own batches and copies of what it touches, so fewer need less."""
    return Proposal(
        summary="lower num_workers or prefetch_factor, keep metadata in arrays instead of Python "
        "lists, gc.freeze() before workers start, or ask for more memory",
        risk="fewer workers may load more slowly",
        automatic=False,
    )
