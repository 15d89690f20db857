"""Collect garbage less often."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.treatment import Plan, treatment


@treatment("python-gc-pauses", consent="none")
def gc_thinned(proof: Proof) -> Plan | None:
    """Let the program's own ``gc.collect()`` through only every now and then."""
    if not proof.facts.get("explicit"):
        return None
    return Plan(
        summary="remove gc.collect() from the training loop, or call it every 100 steps",
        edits=(Edit(knob="gc.collect_interval_steps", value=100, was=1),),
        risk="peak memory may rise where the call freed large cycles; watch it",
    )
