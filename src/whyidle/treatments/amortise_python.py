"""Run costly Python in every k-th step only."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.treatment import Plan, treatment


@treatment("python-overhead-in-step", "python-between-operators", consent="none")
def amortise_python(proof: Proof) -> Plan:
    """Call metrics, progress bars and hooks every k-th step, or after the next step has been
    launched. Advice: only the author knows whether a function may be skipped."""
    every = int(proof.facts.get("every", 10))
    place = proof.where[0] if proof.where else None
    what = "this Python code"
    named = place is not None and not (place.function or "<").startswith("<")
    what += f" of {place.function}" if place and named else ""
    what += f" ({place.file}:{place.line})" if place else ""
    return Plan(
        summary=f"run {what} every {every}th step, vectorise it, or move it to another process",
        edits=(Edit(knob="callbacks.every", value=every, was=1),),
        risk="whatever depends on its running in every step",
        automatic=False,
    )
