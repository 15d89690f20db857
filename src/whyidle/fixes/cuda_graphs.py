"""Replay the step as one CUDA graph."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import HostFacts

LEAST_LAUNCHES = 30
"""fewer launches per step are cheap enough one by one"""


@fix("launch-bound-small-kernels", consent="rounding")
def cuda_graphs(proof: Proof) -> Proposal | None:
    """Capture the step in a CUDA graph and replay it with one launch. Only for shapes that never
    change, so it is offered, not applied. Declines where there are few launches."""
    if proof.get_facts(HostFacts).launches < LEAST_LAUNCHES:
        return None
    return Proposal(
        summary='torch.compile(model, mode="reduce-overhead"), or torch.cuda.graph around the '
        "step, where every batch has the same shape",
        edits=(Edit(knob="model.compile_mode", value="reduce-overhead", was="default"),),
        risk="with changing shapes it captures again and again and is slower than before; captured "
        "buffers keep memory; random state and side effects need care",
        automatic=False,
    )
