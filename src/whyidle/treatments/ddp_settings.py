"""Spare the host DistributedDataParallel's copies and walks."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.treatment import Plan, treatment


@treatment("ddp-config-overhead", consent="none")
def ddp_settings(proof: Proof) -> Plan | None:
    """Let gradients live inside their buckets, and detect unused parameters once instead of in
    every step. The latter is left to people: a trial of some seconds does not show that the used
    parameters never change."""
    edits, words = [], []
    if proof.facts.get("copies"):
        edits.append(Edit(knob="ddp.gradient_as_bucket_view", value=True, was=False))
        words.append("gradient_as_bucket_view=True")
    if proof.facts.get("walks"):
        edits.append(Edit(knob="ddp.static_graph", value=True, was=False))
        words.append("static_graph=True (or find_unused_parameters=False)")
    if not edits:
        return None
    return Plan(
        summary=f"DistributedDataParallel(model, {', '.join(words)})",
        edits=tuple(edits),
        risk="gradients become views: code that detaches or replaces them in place breaks; "
        "static_graph raises where the used parameters change from step to step",
        automatic="ddp.static_graph" not in {edit.knob for edit in edits},
    )
