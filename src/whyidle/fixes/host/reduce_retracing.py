"""Trace a function once for several shapes."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import HostFacts


@fix("recompilation-storm", consent="rounding")
def reduce_retracing(proof: Proof) -> Proposal | None:
    """Let ``tf.function`` generalise the shapes that change, so that one trace serves all of them,
    or trace Keras' ``train_on_batch`` once. Declines for shapes of another framework, and
    where a Python value changes: no shape is more general."""
    facts = proof.get_facts(HostFacts)
    if facts.python_values:
        made = "tf.constant, tf.Variable" if facts.traced else "torch.tensor"
        return Proposal(
            summary=f"pass the number that changes as a tensor ({made}), not as a Python number: "
            "each value is traced anew",
            automatic=False,
        )
    if not facts.traced:
        return None
    if facts.generators:
        return Proposal(
            edits=(Edit(knob="keras.train_on_batch", value=True, was=False),),
            predicted=facts.dynamic,
            risk="Keras 3.0 to 3.8 only; later versions trace once by themselves",
        )
    return Proposal(
        edits=(Edit(knob="tf.reduce_retracing", value=True, was=False),),
        predicted=facts.dynamic,
        risk="code for any length can be slower than code for a fixed one",
    )
