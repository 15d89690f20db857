"""Report less often."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InterruptionFacts


@fix("blocking-logging-upload", consent="none")
def fewer_reports(proof: Proof) -> Proposal | None:
    """Thin reports of the training loop to every fiftieth, and send them from the background. Of a
    wait of which only the line is known it is not said that it logs. Pictures are drawn less often,
    or elsewhere: matplotlib's figures are not made for threads."""
    facts = proof.get_facts(InterruptionFacts)
    known = facts.tracker is not None
    what = "log every fiftieth step, from a background thread"
    what += "; no histograms of parameters" if known else ""
    if facts.histograms:
        what = "no histograms in each step: make them every fiftieth, or none of parameters"
    if facts.plot:
        what = "draw every fiftieth step, or in another process, from numbers that are kept"
    if not known:
        what = (
            "see what the call on this line waits for (a network, a file, a lock, a sleep); if it "
            f"only reports, {what}; else let a thread do it, or leave it out"
        )
    return Proposal(
        summary=what,
        edits=(Edit(knob="logging.interval_factor", value=50, was=1),),
        risk="pictures are older" if facts.plot else "curves have fewer points",
    )
