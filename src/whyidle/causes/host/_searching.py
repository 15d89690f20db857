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

LEAST_ORDINARY, ORDINARY = 2.5, 1.7
"""length of a backward pass over that of its forward pass: at most (but for embeddings), usual"""
MOST_SEARCHED = 0.65
"""share of a backward pass"""


def searching(
    facts: Facts, known: Intervals, optimizer: Intervals
) -> tuple[float, float, float] | None:
    """Share of the step that the search takes (careful, expected, hopeful); None where passes are
    not marked. ``known`` is what samples show of the mode.

    The work before a backward pass is taken for its forward pass: where some of it needs no
    gradients, less of the backward pass seems to be too much, and less is promised.
    """
    host, rows = facts.timeline.host, facts.named(r"^whyidle::backward$")
    if not len(rows):
        return None
    passes = union(host.start[rows], host.end[rows])
    forward = facts.share_of(facts.part("compute") - passes - optimizer - known)
    if not forward:
        return None
    backward = facts.share_of(facts.part("compute") & passes)
    careful, expected = (
        max(0.0, backward - ratio * forward) for ratio in (LEAST_ORDINARY, ORDINARY)
    )
    return careful, expected, max(expected, MOST_SEARCHED * backward)
