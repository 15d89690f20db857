"""Pad to the longest of each batch."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit, Predicted
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DeviceFacts

LEAST = 0.1
"""share of the padding that must lie beyond the longest of each batch"""


@fix("padding-waste", consent="rounding")
def pad_to_longest(proof: Proof) -> Proposal | None:
    """Pad to the longest of the batch instead of to a maximum. Declines where that is done
    already. Whether the model ignores padding only its author knows, so this is advice."""
    facts = proof.get_facts(DeviceFacts)
    beyond = facts.beyond_longest
    if beyond < LEAST:
        return None
    low, middle, high = (beyond * gain for gain in (proof.low, facts.expected, proof.high))
    return Proposal(
        summary="pad in the collate function to the longest of each batch, instead of every sample "
        'to a fixed maximum (a tokenizer\'s padding="longest", DataCollatorWithPadding, '
        "torch.nn.utils.rnn.pad_sequence)",
        edits=(Edit(knob="collate.pad_to", value="longest", was="maximum"),),
        predicted=Predicted(
            speedup=1 / (1 - middle),
            low=1 / (1 - low),
            high=1 / max(1 - high, 0.01),
            method=f"{proof.predicted.method}, of which {beyond:.0%} is beyond the longest",
        ),
        risk="lengths change from batch to batch: compiled models and cuDNN's search want few of "
        "them",
        automatic=False,
    )
