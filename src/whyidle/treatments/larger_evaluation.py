"""Evaluate in larger batches without gradients."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.treatment import Plan, treatment


@treatment("heavy-evaluation", consent="rounding")
def larger_evaluation(_proof: Proof) -> Plan | None:
    """Larger batches and no autograd bookkeeping in evaluation change no learning, only
    rounding."""
    return Plan(
        summary="evaluate under torch.inference_mode() with two to four times the batch, and keep "
        "metrics on the device until the end",
        edits=(
            Edit(knob="evaluation.inference_mode", value=True, was=False),
            Edit(knob="evaluation.batch_factor", value=2, was=1),
        ),
        risk="more device memory during evaluation",
    )
