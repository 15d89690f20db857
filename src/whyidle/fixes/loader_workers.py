"""Load batches in worker processes."""

from __future__ import annotations

from whyidle.fixes._values import around
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InputFacts


@fix(
    "dataloader-no-workers",
    "dataloader-too-few-workers",
    "remote-storage-fetch-stall",
    "small-file-random-io",
    consent="rounding",
)
def loader_workers(proof: Proof) -> Proposal | None:
    """Give the DataLoader worker processes, or more of them, and keep them between epochs. Random
    augmentation moves into the workers, so its random numbers come in another order. Never more
    than the cores that the process may use, unless they mostly wait: beyond them workers slow each
    other and the training process down. Where something bound the process to fewer cores than the
    command was given, workers get them all. An IterableDataset has to divide its samples among
    workers; applied at run time its loader gets one worker at most. A dataset that launches kernels
    is left to people: CUDA does not survive a fork; so is one that is seen to hold what survives
    none, or a random generator that all workers would copy."""
    facts = proof.get_facts(InputFacts)
    workers = facts.workers
    on_device = facts.device_work
    number = "more" if workers is None else max(2, workers)
    edits = [Edit(knob="loader.persistent_workers", value=True)]
    if workers is not None:
        was = facts.was or 0
        value = max(2, workers)
        among = around(value, was + 1, facts.most_workers)
        if facts.undivided:  # then one may be all that the data bears
            among = tuple(dict.fromkeys((value, was + 1, *among)))
        edits.insert(0, Edit(knob="loader.workers", value=value, was=was, among=among))
    freed = ""
    if facts.bound:
        freed = ", each on all cores of the command (os.sched_setaffinity in worker_init_fn)"
        edits.append(Edit(knob="loader.full_affinity", value=True, was=False))
    risk = (
        "an IterableDataset that does not divide its samples among workers repeats them; "
        "open HDF5 or LMDB handles do not survive a fork; memory grows with the workers; a dataset "
        "that the loop changes per epoch stays in kept workers as it was: then do not keep them"
    )
    if on_device:
        risk = "the dataset launches kernels, which a forked worker cannot; " + risk
    first = ""
    if facts.undivided:
        first = (
            "see that the IterableDataset gives each worker its own part (torch.utils.data."
            "get_worker_info), or every worker gives all of it; then "
        )
    if unfit := facts.unfit:
        first += f"{unfit}; then "
    bound = ", at most the cores that this process may use" if workers is None else ""
    return Proposal(
        summary=f"{first}DataLoader(..., num_workers={number}, persistent_workers=True)"
        f"{bound}{freed}",
        edits=tuple(edits),
        predicted=facts.by_workers,
        risk=risk,
        automatic=workers is not None and not on_device and not unfit,
    )
