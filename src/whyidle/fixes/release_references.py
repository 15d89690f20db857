"""Let go of past steps' tensors."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("memory-leak-growth", consent="none")
def release_references(_: Proof) -> Proposal:
    """Detach what is accumulated over steps. Advice: the line is named by the memory snapshot, not
    by the recording."""
    return Proposal(
        summary="total += loss.detach(); clear lists of outputs; remove hooks; "
        "torch.cuda.memory._record_memory_history() names the line",
        risk="none, if nobody backpropagates through the kept graph",
        automatic=False,
    )
