"""Let what the job makes beside training keep up with it."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("slow-producer", consent="rounding")
def more_producers(_: Proof) -> Proposal:
    """Items that are asked for ahead, more of the job's own producers, or cheaper items. Advice:
    they are the script's own, and only it knows how its data can be divided among several. Items
    come in another order."""
    return Proposal(
        summary="ask for the next items before the present one is used (several in flight, a "
        "queue with room for some); where that is so already, start more producers if cores are "
        "free, make each item cheaper, and send arrays or tensors instead of lists of numbers; or "
        "load with a DataLoader and num_workers",
        risk="several producers must divide the data among them, and items come in another order",
        automatic=False,
    )
