"""Hand over few contiguous tensors."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.treatment import Plan, treatment


@treatment("worker-handoff-bottleneck", consent="none")
def leaner_batches(_proof: Proof) -> Plan | None:
    """Few tensors in shared memory are handed over by reference; many Python objects are copied one
    by one."""
    return Plan(
        summary="collate into few contiguous tensors in the worker; no lists of Python objects; "
        "images as uint8",
        risk="code behind the loader must expect the new form",
        automatic=False,
    )
