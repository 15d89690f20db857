"""Bring the data nearer."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InputFacts

MOSTLY = 0.5
"""files that are opened per sample, from which on samples lie in files"""


@fix("remote-storage-fetch-stall", "small-file-random-io", "page-cache-thrash", consent="none")
def staged_data(proof: Proof) -> Proposal:
    """A copy of the data on a local disk, or a fixed part of it in memory. Applied at run time,
    files that are opened while batches are made are kept in memory that workers share, as long as
    they are the same files, each up to 32 MiB, all together up to a quarter of the memory that is
    free; the first epoch is as slow as ever. Left to people where no files are opened (requests to
    a server, one large file), and where no second epoch was seen."""
    facts = proof.get_facts(InputFacts)
    opened = facts.opened >= MOSTLY
    return Proposal(
        summary="copy the dataset to a local disk or /dev/shm before training, or keep a fixed "
        "part of it in the dataset's own memory",
        edits=(Edit(knob="dataset.staging", value=True, was=False),) if opened else (),
        risk="disk and memory fill; the copy grows stale",
        automatic=opened and facts.later_epoch,
    )
