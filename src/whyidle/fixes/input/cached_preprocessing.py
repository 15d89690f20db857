"""Preprocess each sample once."""

from __future__ import annotations

from whyidle.fixes._preparation import describe_preparation
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
    """Cache samples that are the same in every epoch. Applied at run time, a sample enters the
    cache in memory once it is proven to be constant: made twice with different random states and
    equal bit for bit; in every epoch some samples are made again to check. Where no sample was seen
    to be equal in two epochs, but the dataset was read in two epochs, this is advice: cache what
    comes before the first random transform. Its line is told if ``__getitem__`` draws random
    numbers, by its source; then stack samples time the lines before. Else the dataset must have a
    chain of transforms (like torchvision's Compose), and the gain may be anything from nothing to
    all of it, as the recording does not show which of them are random."""
    facts = proof.get_facts(InputFacts)
    if facts.same_again:
        return Proposal(
            summary="preprocess the dataset once and cache the result in memory, or on disk: "
            + describe_preparation(facts),
            edits=(Edit(knob="dataset.cache", value=True, was=False),),
            predicted=facts.cached,
            risk="takes up to half of the free memory; a change that the dataset's attributes do "
            "not show is noticed only at the samples that are made again; preprocessed data on "
            "disk can be larger, slower to read, and out of date",
        )
    if facts.leading is None:
        return None
    begin = f", at {facts.random}" if facts.random else ""
    return Proposal(
        summary=f"cache each sample as it is before the first random transform{begin}, in memory "
        "or in files, and apply the random transforms to a copy of it",
        predicted=facts.leading,
        risk="a random transform before the cache is frozen; the cache takes memory or disk space",
        automatic=False,
    )
