"""Load batches in worker processes."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.treatment import Plan, treatment


@treatment("dataloader-no-workers", consent="rounding")
def loader_workers(proof: Proof) -> Plan | None:
    """Give the DataLoader worker processes and keep them between epochs. Random augmentation
    moves into the workers, so its random numbers come in another order."""
    workers = max(2, int(proof.facts.get("workers", 2)))
    return Plan(
        summary=f"DataLoader(..., num_workers={workers}, persistent_workers=True), at most the "
        "cores that this process may use",
        edits=(
            Edit(knob="loader.workers", value=workers),
            Edit(knob="loader.persistent_workers", value=True),
        ),
        risk="an IterableDataset that does not divide its samples among workers repeats them; "
        "open HDF5 or LMDB handles do not survive a fork; memory grows with the workers",
    )
