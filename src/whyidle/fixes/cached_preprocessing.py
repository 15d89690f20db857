"""Prepare each sample once."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InputFacts


@fix(
    "repeated-deterministic-preprocessing",
    "dataloader-no-workers",
    "heavy-cpu-transform",
    consent="none",
)
def cached_preprocessing(proof: Proof) -> Proposal | None:
    """Samples that are the same in every epoch are kept. Applied at run time, they are kept in
    memory once they are proven to be the same: made twice with other random states, equal bit for
    bit, and some made again in every epoch. Where no sample was seen to come out the same in two
    epochs, but the dataset holds a chain of transforms (like torchvision's Compose, or
    torch.nn.Sequential) and was read in two epochs, it is advice: cache what comes before the
    first random transform. Which transforms are random no recording tells, so that gain may be
    anything between nothing and all of it."""
    facts = proof.get_facts(InputFacts)
    if facts.same_again:
        return Proposal(
            summary="prepare the dataset once and keep the result (in memory, memory-mapped, or "
            "as a copy)",
            edits=(Edit(knob="dataset.cache", value=True, was=False),),
            predicted=facts.cached,
            risk="up to half of the free memory; what changes without a sign in the dataset's "
            "attributes is noticed at the samples that are made again, not at each; prepared data "
            "on disk can be larger and slower to read, and grows stale",
        )
    if facts.leading is None:
        return None
    return Proposal(
        summary="cache what comes before the first random transform, by index, and apply the "
        "random transforms to a copy of it",
        predicted=facts.leading,
        risk="a random transform before the cache would be frozen; the cache takes memory or disk "
        "space",
        automatic=False,
    )
