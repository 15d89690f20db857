"""Prepare each sample once."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.treatment import Plan, treatment


@treatment(
    "repeated-deterministic-preprocessing",
    "dataloader-no-workers",
    "heavy-cpu-transform",
    consent="none",
)
def cached_preprocessing(proof: Proof) -> Plan | None:
    """The result is the same in every epoch, so it can be kept. Random augmentation must stay
    behind the cache. Declines for other causes where no sample was seen to come out the same in
    two epochs. Applied at run time, samples are kept in memory once they are proven to be the same
    every time: made twice with other random states, bit for bit, and some again in every epoch.
    Where samples are augmented at random it is not proposed, for no cause sees how they are made.
    With `dataset.cache = true` written into `plan.toml` by hand, what enters the first random
    transform of a chain (like torchvision's Compose, or torch.nn.Sequential) is kept instead, once
    it is proven likewise; the transforms from there on draw their random numbers as ever."""
    if "same_again" in proof.facts and not proof.facts["same_again"]:
        return None
    return Plan(
        summary="prepare the dataset once and keep the result (in memory, memory-mapped, or "
        "as a copy)",
        edits=(Edit(knob="dataset.cache", value=True, was=False),),
        predicted=proof.facts.get("cached"),
        risk="up to half of the free memory; what changes without a sign in the dataset's "
        "attributes is noticed at the samples that are made again, not at each; prepared data on "
        "disk can be larger and slower to read, and grows stale",
    )
