"""Exchange accumulation steps for a larger micro-batch."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DeviceFacts


@fix("batch-too-small", consent="rounding")
def larger_microbatch(proof: Proof) -> Proposal | None:
    """Where gradients are accumulated: fewer, larger micro-batches, and the same global batch. The
    sum of gradients is the same but for rounding; batch normalisation sees more samples, and
    micro-batches of unequal size, as at the end of an epoch, are weighed by their samples where the
    loss is a mean. Whether the loss stays the same only who knows the job can tell, so this is
    advice. Declines where a step is seen to have one backward pass, or none to be joined."""
    facts = proof.get_facts(DeviceFacts)
    passes, joined = facts.passes, facts.microbatch
    times, predicted = joined or (facts.times or 2, None)
    steps = f"accumulation steps divided by {times}"
    if passes is not None:
        if joined is None:
            return None
        steps = f"{passes} accumulation steps made {passes // times}"
    return Proposal(
        summary=f"with gradient accumulation: batch_size times {times}, {steps}; the global "
        "batch stays (Hugging Face: per_device_train_batch_size and gradient_accumulation_steps)",
        edits=(Edit(knob="loop.microbatch_times", value=times, was=1),),
        predicted=predicted,
        risk="applies only where accumulation is in use; memory grows with the micro-batch; batch "
        "normalisation statistics change",
        automatic=False,
    )
