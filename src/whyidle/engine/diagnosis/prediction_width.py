"""No prediction is surer than the steps allow from which it is made.

What a fix wins is told as a share of the step, and the step of one stretch of a run is not that of
the next: other programs come and go, batches differ. Each prediction is at least as wide as the
share of the bucket that it shortens scatters between stretches of the recorded steps.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import predict_removal
from whyidle.analysis.sampling.share_error import between_steps
from whyidle.model.buckets import Bucket
from whyidle.model.diagnosis import Predicted


class BucketSpread(NamedTuple):
    """Share of the step that a bucket holds, and half the interval of that."""

    share: float
    half: float


NONE = BucketSpread(0.0, 0.0)


def bucket_spread(facts: Facts, bucket: Bucket) -> BucketSpread:
    """Of a bucket, from step to step; none where the recording is no run of steps."""
    if facts.cold_start or facts.left_idle or facts.steps.found_by is None:
        return NONE
    spans = facts.time_of(bucket)
    return BucketSpread(facts.share_of(spans), between_steps(facts, spans))


def widen_prediction(predicted: Predicted, known: BucketSpread) -> Predicted:
    """The prediction, as wide as the bucket's scatter at least: by as large a part of what it wins,
    and of no more than the bucket may hold. That steps scatter makes no gain a loss."""
    won = 1.0 - 1.0 / max(predicted.speedup, 1.0)
    if won <= 0.0 or known.half <= 0.0:
        return predicted
    half = known.half * min(won / known.share, 1.0)
    most = max(won, min(won + half, known.share + known.half))
    ends = predict_removal(max(0.0, won - half), most, predicted.method, won)
    return msgspec.structs.replace(
        predicted, low=min(predicted.low, ends.low), high=max(predicted.high, ends.high)
    )
