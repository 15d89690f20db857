"""Use TF32 for FP32 matrix products."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix


@fix("tf32-disabled", consent="numerics")
def tf32(_: Proof) -> Proposal | None:
    """Inputs of matrix products are rounded to 10 bits of mantissa; sums stay in FP32."""
    return Proposal(
        edits=(Edit(knob="matmul.precision", value="high", was="highest"),),
        risk="iterative solvers, physics losses and metric learning may need full FP32",
    )
