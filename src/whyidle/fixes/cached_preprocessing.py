"""Prepare each sample once."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix


@fix(
    "repeated-deterministic-preprocessing",
    "dataloader-no-workers",
    "heavy-cpu-transform",
    consent="none",
)
def cached_preprocessing(proof: Proof) -> Proposal | None:
    """The result is the same in every epoch, so it can be kept. Random augmentation must stay
    behind the cache. Where no sample was seen to come out the same in two epochs, it is proposed
    only for a dataset that holds a chain of transforms (like torchvision's Compose, or
    torch.nn.Sequential) and was gone through twice: what enters the first random transform of the
    chain is kept then, and the transforms from there on draw their random numbers as ever. No look
    tells how much of a sample comes before, so that anything between nothing and all of it may be
    won. Applied at run time, what is kept lies in memory once it is proven to be the same every
    time: made twice with other random states, bit for bit, and some again in every epoch."""
    whole = proof.facts.get("same_again", True)
    if not whole and proof.facts.get("leading") is None:
        return None
    what = "prepare the dataset once" if whole else "prepare once what random transforms are fed"
    return Proposal(
        summary=f"{what} and keep the result (in memory, memory-mapped, or as a copy)",
        edits=(Edit(knob="dataset.cache", value=True, was=False),),
        predicted=proof.facts.get("cached" if whole else "leading"),
        risk="up to half of the free memory; what changes without a sign in the dataset's "
        "attributes is noticed at the samples that are made again, not at each; prepared data on "
        "disk can be larger and slower to read, and grows stale",
    )
