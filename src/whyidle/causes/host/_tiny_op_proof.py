"""Short operators that a line of the user's own calls one after the other, on a watched CPU job."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.sampling.share_error import share_bounds
from whyidle.analysis.source_places import at_place
from whyidle.analysis.tiny_op_loops import TinyOpLoop, find_tiny_op_loop
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Evidence
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import HostFacts

LEAST_SHARE = 0.03
"""share of the step below which nothing is said, as of Python between calls (``_watched``): of
what is Python and the way to operators for certain"""
REMOVED = 0.5
"""careful: half of what is Python for certain can go"""


def one_by_one(facts: Facts) -> Proof | None:
    """Calls that a line makes one by one where one call may do for all. Python, and the way to the
    operators, is what looks there found the lock taken by: half of that, all of it, or the
    operators, too."""
    found = find_tiny_op_loop(facts)
    if found is None:
        return None
    share, (least, most) = facts.share_of(found.spans), share_bounds(facts, found.spans)
    surely, taken = least * found.taken[0], share * found.taken[1]
    if surely < LEAST_SHARE:
        return None
    gains = (REMOVED * surely, taken, most)
    return Proof(
        headline=f"Short calls one after the other{at_place(found.where)} take "
        f"{format_duration(share * facts.step_s)} of each step",
        low=gains[0],
        high=most,
        predicted=from_gains(gains, "the step without half or all of the way to these operators"),
        evidence=_loop_evidence(found, share),
        confidence=0.85,
        where=found.where[:3],
        bucket="compute",
        facts=HostFacts(calls=round(found.calls)),
    )


def _loop_evidence(found: TinyOpLoop, share: float) -> tuple[Evidence, ...]:
    told = (
        ("time at these lines, share of step", share, "ratio"),
        ("looks there that found the interpreter's lock taken", found.taken[1], "ratio"),
        ("calls there per step, at least", float(round(found.calls)), None),
    )
    return tuple(make_evidence(*each, samples=found.looks, source="samples") for each in told)
