"""Read scalars rarely, or one step late."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.treatment import Plan, treatment

SCALARS = ("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero")
"""operators that read one number"""


@treatment("per-step-host-sync", consent="none")
def defer_scalar_reads(proof: Proof) -> Plan:
    """Log every k-th step, accumulate on the device, or read values one step late. Applied only
    to reads of single numbers at known logging calls: elsewhere the program may depend on them."""
    every = int(proof.facts.get("every", 10))
    operators = list(proof.facts.get("operators", []))
    scalar = bool(operators) and all(name in SCALARS for name in operators)
    return Plan(
        summary=f"read losses and metrics every {every}th step, or accumulate them on the device; "
        "torch.where instead of boolean masks; no torch.cuda.synchronize() in the loop",
        edits=(Edit(knob="log.scalar_every", value=every, was=1),) if scalar else (),
        risk="logs lag behind, and a loss that is no number is noticed later",
        automatic=scalar,
    )
