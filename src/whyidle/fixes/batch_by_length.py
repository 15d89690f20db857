"""Put samples of similar length into one batch."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("padding-waste", consent="convergence")
def batch_by_length(_: Proof) -> Proposal:
    """Sort a shuffled pool of samples by length and cut it into batches, so that hardly any
    padding is left. Advice: lengths, and whether the job may learn in another order, only its
    author knows."""
    return Proposal(
        summary="batches of similar lengths: a sampler that sorts each shuffled pool of some "
        "hundred batches by length, or sequences packed without padding; with transformers "
        'train_sampling_strategy="group_by_length" (group_by_length=True before 5.2)',
        risk="which samples meet in a batch depends on their length; learning may, too",
        automatic=False,
    )
