"""Raise the batch."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit, Predicted
from whyidle.model.treatment import Plan, treatment
from whyidle.treatments._values import around


@treatment("batch-too-small", "launch-bound-small-kernels", consent="convergence")
def larger_batch(proof: Proof) -> Plan | None:
    """More samples per step, with a learning rate that goes with them: as many times as large for
    SGD, by the square root for Adam; larger batches still want warm-up, and those of many thousands
    LARS or LAMB. Another global batch may learn differently: beyond the gradient noise scale, the
    variance of single gradients over their mean's square, more samples teach little more. Applied
    at run time, and only with consent, loaders that shuffle get larger batches; which size is
    fastest is tried, by samples per second, and it is kept only where after the same time of
    training the loss is no higher. Declines where batches are the script's own or an epoch would
    have few left. The plan without it is the job as it was."""
    larger: Predicted | None = proof.facts.get("larger")
    if "larger" in proof.facts and larger is None:
        return None
    times = int(proof.facts.get("times", 4 if larger else 2))
    batch = proof.facts.get("batch")
    target = f"batch_size={batch * times}" if batch else f"a batch {times} times as large"
    among = around(times, 2, proof.facts.get("most_times"))
    return Plan(
        summary=f"DataLoader(..., {target}), with the learning rate scaled to it: linearly for "
        "SGD with warm-up, by the square root for Adam",
        edits=(
            Edit(knob="loader.batch_size_times", value=times, was=1, among=among),
            Edit(knob="optimizer.scale_learning_rate", value=True, was=False),
        ),
        predicted=larger,
        risk="memory grows with the batch; generalisation and learning rate may need care; the "
        "input pipeline must deliver more samples per second",
    )
