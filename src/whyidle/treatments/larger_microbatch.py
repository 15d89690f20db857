"""Exchange accumulation steps for a larger micro-batch."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.treatment import Plan, treatment


@treatment("batch-too-small", consent="rounding")
def larger_microbatch(proof: Proof) -> Plan | None:
    """Where gradients are accumulated: fewer, larger micro-batches, and the same global batch. The
    sum of gradients is the same but for rounding; batch normalisation sees more samples."""
    times = float(proof.facts.get("times", 2))
    return Plan(
        summary=f"with gradient accumulation: batch_size times {times:.3g}, accumulation steps "
        f"divided by {times:.3g}; the global batch stays",
        edits=(Edit(knob="loop.microbatch_times", value=times, was=1.0),),
        risk="applies only where accumulation is in use; memory grows with the micro-batch; batch "
        "normalisation statistics change",
        automatic=False,
    )
