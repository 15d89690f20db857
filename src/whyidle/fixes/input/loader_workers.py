"""Load batches in worker processes."""

from __future__ import annotations

from whyidle.fixes._values import nearby_values
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
    """Give the loader worker processes, or more of them, and keep them between epochs. Random
    augmentation moves into the workers, so its random numbers come in another order. Never more
    workers than cores, unless they mostly wait: further workers slow each other and the training
    process down. Where something bound the process to fewer cores than the command had, workers get
    them all. An iterable dataset must divide its samples among workers; applied at run time its
    loader gets at most one. Advice where the dataset launches kernels, because CUDA does not
    survive a fork, and where it holds an object that does not survive one, or a random generator
    that all workers would copy."""
    facts = proof.get_facts(InputFacts)
    workers = facts.workers
    edits = [Edit(knob="loader.persistent_workers", value=True)]
    if workers is not None:
        was = facts.was or 0
        value = max(2, workers)
        among = nearby_values(value, was + 1, facts.most_workers)
        if facts.undivided:  # the data may support only one
            among = tuple(dict.fromkeys((value, was + 1, *among)))
        edits.insert(0, Edit(knob="loader.workers", value=value, was=was, among=among))
    if facts.bound:
        edits.append(Edit(knob="loader.full_affinity", value=True, was=False))
    risk = (
        "an iterable dataset that does not divide its samples among workers repeats them; open "
        "HDF5 or LMDB handles do not survive a fork; memory grows with the workers; persistent "
        "workers do not see changes that the loop makes to the dataset per epoch"
    )
    if facts.device_work:
        risk = "the dataset launches kernels, which a forked worker cannot do; " + risk
    summary = "{edits}" + "; loading mostly waits, so workers may outnumber cores" * facts.waits
    if workers is None:
        summary = "use more workers, at most one per core that this process may use, and {edits}"
    if facts.unfit:
        summary = f"{facts.unfit}; then {summary}"
    if facts.undivided:
        summary = (
            "make sure that the iterable dataset gives each worker its own part, as otherwise "
            f"every worker yields all samples; then {summary}"
        )
    return Proposal(
        summary=summary,
        edits=tuple(edits),
        predicted=facts.by_workers,
        risk=risk,
        automatic=workers is not None and not facts.device_work and not facts.unfit,
        spreads=True,
    )
