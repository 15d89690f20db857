"""Short operators that one line of the script calls one after the other, in watched CPU jobs."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.lines.source_lines import at_place
from whyidle.analysis.lines.time_by_line import time_of_line_causes
from whyidle.analysis.lines.tiny_op_loops import find_tiny_op_loop
from whyidle.analysis.sampling.share_error import share_bounds
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.host._loop_proof import LEFT
from whyidle.model.cause import NOTICEABLE, Proof
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import HostFacts

REMOVED = 0.5
"""low estimate: half of the certain share is saved, as where a recurrence keeps its turns"""


def prove_tiny_op_loop(facts: Facts) -> Proof | None:
    """Prove calls that a line makes one by one where one call may do for all, unless they only
    report.

    Samples there that waited for the interpreter's lock show Python and dispatch. Half of that is
    saved, all at these lines but what one call leaves, or all."""
    loop = find_tiny_op_loop(facts)
    if loop is None or (loop.spans & time_of_line_causes(facts)).total > loop.spans.total / 2:
        return None
    share, (least, most) = facts.share_of(loop.spans), share_bounds(facts, loop.spans)
    certain = least * loop.taken[0]
    if certain < NOTICEABLE:
        return None
    listed = (
        ("time at these lines, share of step", share, "ratio"),
        ("samples at these lines that waited for the lock", loop.taken[1], "ratio"),
        ("calls at these lines per step, at least", float(round(loop.calls)), None),
    )
    gains = (REMOVED * certain, (1.0 - LEFT) * share, most)
    return Proof(
        headline=f"Short calls one after the other{at_place(loop.where)} take "
        f"{format_duration(share * facts.step_s)} of each step",
        low=gains[0],
        high=most,
        predicted=from_gains(gains, "the step with half of these calls, or one"),
        evidence=tuple(make_evidence(*row, samples=loop.looks, source="samples") for row in listed),
        confidence=0.85,
        where=loop.where[:3],
        bucket="compute",
        facts=HostFacts(calls=round(loop.calls)),
    )
