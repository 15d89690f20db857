"""Widens predictions by the variation between the recorded steps.

Step times vary during a run, because other programs run and batches differ. The interval of a
prediction is therefore at least as wide as the variation of the bucket that the fix shortens.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from whyidle.analysis.facts import Facts
from whyidle.analysis.sampling.share_error import between_steps
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.buckets import Bucket
from whyidle.model.diagnosis import Predicted


class BucketSpread(NamedTuple):
    """A bucket's share of the step, and half the width of its interval."""

    share: float
    half: float


NONE = BucketSpread(0.0, 0.0)


def bucket_spread(facts: Facts, bucket: Bucket) -> BucketSpread:
    """Measure the spread of a bucket from step to step; none without regular steps."""
    if facts.cold_start or facts.left_idle or facts.steps.found_by is None:
        return NONE
    spans = facts.time_of(bucket)
    return BucketSpread(facts.share_of(spans), between_steps(facts, spans))


def widen_prediction(predicted: Predicted, known: BucketSpread) -> Predicted:
    """Widen a prediction to the bucket's spread, in proportion to the part of the bucket that it
    saves. Never turns a gain into a loss, nor exceeds what the bucket may hold."""
    won = 1.0 - 1.0 / max(predicted.speedup, 1.0)
    if won <= 0.0 or known.half <= 0.0:
        return predicted
    half = known.half * min(won / known.share, 1.0)
    most = max(won, min(won + half, known.share + known.half))
    ends = predict_removal(max(0.0, won - half), most, predicted.method, won)
    return msgspec.structs.replace(
        predicted, low=min(predicted.low, ends.low), high=max(predicted.high, ends.high)
    )
