"""Raise the batch."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.treatment import Plan, treatment


@treatment("batch-too-small", consent="convergence")
def larger_batch(proof: Proof) -> Plan | None:
    """More samples per step. Another global batch may learn differently: scale the learning rate
    (linearly for SGD with warm-up, by the square root for Adam; LARS or LAMB for batches of many
    thousands) and watch the loss per sample, not per step. Beyond the gradient noise scale, the
    variance of single gradients over their mean's square, more samples teach little more."""
    times = float(proof.facts.get("times", 2))
    batch = proof.facts.get("batch")
    target = f"batch_size={int(batch * times)}" if batch else f"a batch {times:.3g} times as large"
    return Plan(
        summary=f"DataLoader(..., {target}), with the learning rate scaled to it: linearly for "
        "SGD with warm-up, by the square root for Adam",
        edits=(Edit(knob="loader.batch_size_times", value=times, was=1.0),),
        risk="memory grows with the batch; generalisation and learning rate may need care; the "
        "input pipeline must deliver more samples per second",
        automatic=False,
    )
