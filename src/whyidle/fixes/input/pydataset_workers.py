"""Make the batches of a PyDataset in threads."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InputFacts


@fix("single-batch-generator", consent="none")
def pydataset_workers(proof: Proof) -> Proposal | None:
    """Give a PyDataset of Keras threads that make batches ahead, in the same order. Advice for a
    plain generator, which only one thread can run. Declines where it gives single rows."""
    facts = proof.get_facts(InputFacts)
    if facts.pipeline == "rows":
        return None  # whole batches gain more
    if facts.workers is None:
        return Proposal(
            summary="give batches by their number instead of by a generator, so that several can "
            "be made at a time (keras.utils.PyDataset with workers), or do the work in a parallel "
            "map of the dataset",
            risk="work in Python gains nothing from threads",
            automatic=False,
        )
    return Proposal(
        edits=(Edit(knob="keras.workers", value=facts.workers, was=facts.was),),
        risk="__getitem__ must be safe in threads; where it computes in Python, "
        "use_multiprocessing=True makes processes of them",
    )
