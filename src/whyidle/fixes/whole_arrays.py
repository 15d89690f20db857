"""Prepare samples with whole arrays instead of Python loops."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix(
    "heavy-cpu-transform",
    "repeated-deterministic-preprocessing",
    "dataloader-no-workers",
    consent="rounding",
)
def whole_arrays(proof: Proof) -> Proposal | None:
    """Work on whole arrays, and once on what is the same in each epoch. Advice: the code is the
    user's own. Only where looks show that it is their Python that takes the time, not a library
    that decodes or reads; not for a loader without workers whose wait they are expected to hide."""
    unneeded = "cheaper" in proof.facts and proof.facts["cheaper"] is None
    if unneeded or proof.facts.get("storage") or proof.facts.get("media") is not False:
        return None
    name = str(proof.facts.get("function") or "").rpartition(": ")[2]
    what = name if name.isidentifier() else "what prepares samples"
    return Proposal(
        summary=f"make {what} cheaper: work on whole arrays, not on one element after the other "
        "(each tensor costs microseconds, however small), and do once, before training, "
        "what comes out the same in each epoch",
        predicted=proof.facts.get("cheaper"),
        risk="another order of operations may round otherwise; caching random augmentation "
        "freezes it",
        automatic=False,
    )
