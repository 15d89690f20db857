"""Report less often."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InterruptionFacts


@fix("blocking-logging-upload", consent="none")
def fewer_reports(proof: Proof) -> Proposal | None:
    """Keep every fiftieth report of the training loop, and send it from a background thread. If
    only the waiting line is known, the summary does not assume that the line is logging. Draw plots
    less often, or in another process: matplotlib is not thread-safe."""
    facts = proof.get_facts(InterruptionFacts)
    known = facts.tracker is not None
    advice = "log every fiftieth step, from a background thread"
    advice += "; no histograms of parameters" if known else ""
    if facts.histograms:
        advice = "do not log histograms in every step: log them every fiftieth step, or not at all"
    if facts.plot:
        advice = "draw every fiftieth step, or in another process from stored numbers"
    if not known:
        advice = (
            "see what the call on this line waits for (a network, a file, a lock, a sleep); if it "
            f"only reports, {advice}; otherwise move it to a thread or remove it"
        )
    return Proposal(
        summary=advice,
        edits=(Edit(knob="logging.interval_factor", value=50, was=1),),
        risk="plots are older" if facts.plot else "curves have fewer points",
    )
