"""Hand over few contiguous tensors."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("worker-handoff-bottleneck", consent="none")
def leaner_batches(_proof: Proof) -> Proposal | None:
    """Few tensors in shared memory are handed over by reference; many Python objects are copied one
    by one."""
    return Proposal(
        summary="collate into few contiguous tensors in the worker; no lists of Python objects; "
        "images as uint8",
        risk="code behind the loader must expect the new form",
        automatic=False,
    )
