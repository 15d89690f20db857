"""Report less often."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.treatment import Plan, treatment


@treatment("blocking-logging-upload", consent="none")
def fewer_reports(_proof: Proof) -> Plan | None:
    """Thin reports of the training loop to every fiftieth, and send them from the background."""
    return Plan(
        summary="log every fiftieth step, from a background thread; no histograms of parameters",
        edits=(Edit(knob="logging.interval_factor", value=50, was=1),),
        risk="curves have fewer points",
    )
