"""Read samples from shards."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("small-file-random-io", consent="convergence")
def sharded_data(_proof: Proof) -> Proposal | None:
    """Shards are read in sequence; a shuffle buffer mixes less well than a random order of all
    samples."""
    return Proposal(
        summary="pack samples into shards (tar, Arrow) and read them in sequence with a "
        "shuffle buffer",
        risk="poorer shuffling; a second copy of the data",
        automatic=False,
    )
