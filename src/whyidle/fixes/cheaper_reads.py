"""Have a library that stores arrays read less."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("heavy-cpu-transform", "dataloader-no-workers", consent="rounding")
def cheaper_reads(proof: Proof) -> Proposal | None:
    """Chunks that fit what is read, and no more unpacking than it needs. HDF5, Zarr and Parquet
    read and unpack a whole chunk (row group) for any part of it. Advice: files have to be written
    anew, or read in another way. Only where looks show most of the loading in such a library; not
    for a loader without workers whose wait they are expected to hide."""
    library = proof.facts.get("storage")
    unneeded = "cheaper" in proof.facts and proof.facts["cheaper"] is None
    if unneeded or not library:
        return None
    return Proposal(
        summary=f"make reading through {library} cheaper: a whole chunk (row group) is read and "
        "unpacked for any part of it, so store about one sample in each, without compression or "
        "with a fast one, or read the samples of one together; or keep the data in memory, "
        "unpacked, where it fits",
        predicted=proof.facts.get("cheaper"),
        risk="files without compression are larger; samples that are read together are shuffled "
        "less",
        automatic=False,
    )
