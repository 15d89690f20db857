"""Limits gains in a job whose ranks meet in every step.

Only a gain on the slowest rank shortens the step. Beyond its distance to the second slowest rank,
that rank sets the pace.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.job import Job
from whyidle.model.buckets import Bucket
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Predicted

STEADY: frozenset[Bucket] = frozenset({"compute", "host", "input", "transfer", "sync"})
"""buckets of time spent in every step; an interruption of any rank delays all of them"""
Found = tuple[Facts, Proof]
Shares = tuple[float, float, float]  # shares of the step: low, expected, high
NOTHING: Shares = (0.0, 0.0, 0.0)


def pace_setter(job: Job, bucket: Bucket) -> Facts | None:
    """The rank that the others wait for in nearly every step; None if there is none, or if the
    time of ``bucket`` is not spent in every step."""
    if bucket not in STEADY or not job.meets_every_step:
        return None
    late = job.imbalance.late_rank
    return job.ranks[late.index] if late is not None and late.is_constant else None


def gain_of_others(job: Job, found: Sequence[Found], pace: Facts) -> Shares:
    """The gain on ``pace`` until another rank, relieved of its own loss, is the slowest."""
    spared = {id(facts): share_won(proof.predicted) for facts, proof in found}
    left = [
        float(own) - np.array(spared.get(id(facts), NOTHING))
        for facts, own in zip(job.ranks, job.imbalance.own_work, strict=True)
        if facts is not pace
    ]
    mine = max(map(float, job.imbalance.own_work))
    careful, expected, hopeful = np.maximum(mine - np.max(left, axis=0), 0.0)
    return float(careful), float(expected), float(hopeful)


def share_won(predicted: Predicted) -> Shares:
    """Convert a predicted speed-up to shares of the step."""
    low, expected, high = (
        1.0 - 1.0 / max(times, 1e-9) for times in (predicted.low, predicted.speedup, predicted.high)
    )
    return low, expected, high


def limit_prediction(predicted: Predicted, most: Shares | None) -> Predicted:
    """Limit a prediction to the gain that the other ranks allow; a slow-down remains one."""
    if most is None:
        return predicted
    ends = zip((predicted.low, predicted.speedup, predicted.high), most, strict=True)
    low, speedup, high = (min(times, 1.0 / max(1.0 - share, 1e-9)) for times, share in ends)
    return msgspec.structs.replace(predicted, low=low, speedup=speedup, high=high)
