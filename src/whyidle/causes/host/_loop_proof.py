"""Proof of loops of short operators: their lines, and their share of the backward pass."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import union_of
from whyidle.analysis.lines.line_purposes import quote_line
from whyidle.analysis.lines.operator_loops import OperatorLoop
from whyidle.analysis.sampling.share_error import share_bounds
from whyidle.analysis.steps.forecast import from_gains
from whyidle.model.cause import MOST_PLACES, NOTICEABLE, Proof
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role

CAREFUL = 0.75
"""lower bound of the loop's share of the backward pass that is saved. Backward time per forward
time was 1.55 to 2.24 in five loops of short operators (PyTorch 2.13, one core), so dividing the
pass by forward time errs by a fifth. Padding also costs something"""
SLOWEST = 3.0
"""most backward time per forward time of the rest of a model; a matrix product has two"""
LEFT = 0.05
"""part that stays when one call replaces hundreds, for at most a thousand graph nodes"""
LAYER_LEFT = {"LSTM": (0.8, 0.35, 0.04), "GRU": (1.0, 0.8, 0.5), "RNN": (1.0, 0.6, 0.35)}
"""part that stays when a layer replaces a loop of cells: lower bound, expected, upper bound, by
passes of 1 to 64 sequences and 32 to 128 hidden numbers (PyTorch 2.13, one core): 0.04 to 0.78 of
LSTM, which is one operator on a CPU; the others remain loops in C++, 0.66 to 1.03 of GRU"""


def prove_loop(facts: Facts, loop: OperatorLoop, headline: str) -> Proof | None:
    """Prove a loop. ``headline`` has the fields ``at`` and ``time``."""
    share, (least, most) = facts.share_of(loop.spans), share_bounds(facts, loop.spans)
    if min(least, share) < NOTICEABLE:
        return None
    host, rows = facts.timeline.host, facts.timeline.rows_of(Role.BACKWARD)
    passes = facts.share_of(union_of(host.start[rows], host.end[rows]))
    saved, rest = passes * loop.part, share * (1.0 / loop.part - 1.0) if loop.part else 1.0
    nodes = (facts.timeline.process.bursts.counted_s or (0, 0.0))[0]
    stays = LEFT * min(1.0, 1e3 / max(nodes, 1)) if loop.part else LEFT
    left = LAYER_LEFT.get(loop.layer, (stays, stays, 0.0))
    gains = (
        (1.0 - left[0]) * (least + max(CAREFUL * saved, min(saved, passes - SLOWEST * rest))),
        (1.0 - left[1]) * (share + saved),
        (1.0 - left[2]) * min(1.0, most + saved),
    )
    where = _places_of(loop)
    spot = f" ({(where[0].file or '').rpartition('/')[2]}:{where[0].line})" if where else ""
    line = headline.format(at=spot, time=format_duration(share * facts.step_s))
    return Proof(
        headline=f"{line}{', and its part of the backward pass' if loop.part else ''}",
        low=gains[0],
        high=gains[2],
        predicted=from_gains(gains, "the step without these calls and their gradients"),
        evidence=_loop_evidence(facts, loop, share, passes),
        confidence=0.85,
        where=where,
        facts=HostFacts(
            text=quote_line(facts.timeline.sources, where[0] if where else None), layer=loop.layer
        ),
    )


def _places_of(loop: OperatorLoop) -> tuple[Place, ...]:
    """Lines with most time, and the loop. The loop is first if it is outside the model."""
    own = [line.place for line in loop.lines if line.place is not None][: MOST_PLACES - 1]
    around = [line.loop for line in loop.lines if line.loop is not None]
    listed = [*own, *around] if loop.part else [*around[:1], *own, *around]
    return tuple(dict.fromkeys(listed))[:MOST_PLACES]


def _loop_evidence(
    facts: Facts, loop: OperatorLoop, share: float, passes: float
) -> tuple[Evidence, ...]:
    listed: list[tuple[str, float, str | None]] = [
        ("time at these lines, share of step", share, "ratio"),
        ("samples there that find the interpreter at work", loop.taken, "ratio"),
        ("backward pass, share of step", passes, "ratio"),
    ]
    evidence = [make_evidence(*row, samples=loop.looks, source="samples") for row in listed]
    nodes, _ = facts.timeline.process.bursts.counted_s or (0, 0.0)
    if nodes:
        evidence.append(
            make_evidence("gradient operators per step", nodes, None, source="autograd graph")
        )
    return tuple(evidence)
