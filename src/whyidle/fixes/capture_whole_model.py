"""Remove what breaks the compiled graph."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("graph-breaks", consent="rounding")
def capture_whole_model(_: Proof) -> Proposal:
    """Move prints, ``.item()`` and branches on data out of the compiled model. Advice: the lines
    are named by the compiler, not by the recording."""
    return Proposal(
        summary="TORCH_LOGS=graph_breaks names the lines; move prints and .item() out of the "
        "model, set torch._dynamo.config.capture_scalar_outputs = True, or compile the repeated "
        "block alone",
        risk="a larger graph takes longer to compile",
        automatic=False,
    )
