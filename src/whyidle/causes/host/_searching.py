"""What anomaly mode's search for NaN costs in the backward pass, where no sample tells it from the
pass: from how long backward passes take beside forward passes where nothing is searched.

Measured on ten networks (perceptrons of 64 to 1024 units, convolutions, transformers, an LSTM, bags
of embeddings; PyTorch 2.13, a CPU core): without the mode a backward pass takes 0.7 to 2.0 times as
long as its forward pass, 1.7 times in the median, and 4.8 times with embeddings. With it 15 to
63 % of the backward pass is the search. It costs most where a weight is used for few samples: it
looks at every gradient once or more, however much arithmetic made it.
"""

from __future__ import annotations

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union
from whyidle.model.roles import Role

LEAST_ORDINARY, ORDINARY = 2.5, 1.7
"""length of a backward pass over that of its forward pass: at most (but for embeddings), usual"""
USUALLY_SEARCHED, MOST_SEARCHED = 0.4, 0.65
"""share of a backward pass"""


def passes(facts: Facts) -> Intervals:
    """Backward passes, as they are marked."""
    host, rows = facts.timeline.host, facts.rows_of(Role.BACKWARD)
    return union(host.start[rows], host.end[rows])


def shortest(facts: Facts) -> tuple[float, float]:
    """Share of the step that forward passes take, if backward passes are as long beside them as is
    usual, and as much of these is the search; and if both are at their most. None where backward
    passes are not marked."""
    backward = facts.share_of(facts.part("compute") & passes(facts))
    likely = (1.0 - USUALLY_SEARCHED) * backward / ORDINARY
    return likely, (1.0 - MOST_SEARCHED) * backward / LEAST_ORDINARY


def searching(
    facts: Facts, forward: float, least: float = 0.0
) -> tuple[float, float, float] | None:
    """Share of the step that the search takes (careful, expected, hopeful), given that of forward
    passes without what the mode takes in them, and what is expected at least; None where passes
    are not marked."""
    marked = passes(facts)
    if not len(marked) or forward <= 0.0:
        return None
    backward = facts.share_of(facts.part("compute") & marked)
    careful, expected = (
        max(0.0, backward - ratio * forward) for ratio in (LEAST_ORDINARY, ORDINARY)
    )
    expected = max(expected, min(least, MOST_SEARCHED * backward))
    return careful, expected, max(expected, MOST_SEARCHED * backward)
