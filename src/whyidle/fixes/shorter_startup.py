"""Do once what every start does again."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("slow-startup", consent="none")
def shorter_startup(_: Proof) -> Proposal:
    """Keep on disk what a start computes. Advice: what is scanned or read is the script's own."""
    return Proposal(
        summary="keep the result of scans, indices and tokens on disk; map large files; import "
        "what is needed where it is needed; begin to load data before the model is built",
        risk="a result kept on disk must be made anew when its data change",
        automatic=False,
    )
