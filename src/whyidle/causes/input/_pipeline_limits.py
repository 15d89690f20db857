"""tf.data pipelines that more parallel calls do not make faster: they lack cores or the
interpreter's lock, or the storage limits them."""

from __future__ import annotations

import re

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.input.tfdata_pipelines import (
    SlowStage,
    find_slow_stage,
    stage_evidence,
)
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.input._pipeline_evidence import (
    CHEAPER,
    choose_calls,
    describe_cache,
    gains_without,
    is_repeated,
    pipeline_places,
    predict_cached_part,
)
from whyidle.model.cause import LEAST_SHARE, Proof
from whyidle.model.diagnosis import Predicted
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import InputFacts

MEDIA = re.compile(
    r"^Decode(AndCrop)?(Jpeg|Png|Gif|Bmp|Image|WebP|Wav)|Resize|RandomCrop|AdjustContrast"
)
"""operators that decode or change pictures and sound, not records of numbers"""
LOCAL = (0.5, 0.9)
"""part of the wait that a local copy removes (lower bound, expected)"""


def prove_pipeline_work(facts: Facts) -> Proof | None:
    """Prove that steps wait for a stage that already uses all the cores that it can."""
    slow, blocked = find_slow_stage(facts), facts.bucket_share("input")
    if slow is None or not slow.is_map or slow.waits is not False or blocked < LEAST_SHARE:
        return None
    if not (slow.is_python or not slow.is_serial) or is_repeated(slow):
        return None
    if not slow.sets_pace(facts):
        return None
    lock = ", one call at a time: the interpreter's lock" if slow.is_python else ""
    _, usual, high = gains_without(facts, slow, blocked)
    gains = (min(CHEAPER[0], blocked), min(CHEAPER[1], usual), high)
    operators = slow.stage.operators if slow.stage else ()
    return _prove(
        facts,
        slow,
        f"The tf.data stage {slow.describe_call()} takes {format_duration(slow.batch_s)} per "
        f"batch{lock}",
        from_gains(gains, "P1: cheaper preprocessing"),
        InputFacts(
            compute=1.0 if facts.on_cpu else facts.bucket_share("compute"),
            inside=True,
            same_again=False,
            function=slow.stage.function if slow.stage else None,
            media=any(MEDIA.search(kind) for kind in operators),
            pipeline="python" if slow.is_python else "operators",
            cached=predict_cached_part(facts, slow, blocked),
            **describe_cache(facts, slow),
        ),
    )


def prove_pipeline_wait(facts: Facts) -> Proof | None:
    """Prove that steps wait for a stage whose calls wait, although enough of them run at a time."""
    slow, blocked = find_slow_stage(facts), facts.bucket_share("input")
    if slow is None or not slow.is_map or not slow.waits or blocked < LEAST_SHARE:
        return None
    pool = slow.pipeline.options.get("threads") or 0
    if slow.is_serial or pool < choose_calls(facts, slow) or not slow.sets_pace(facts):
        return None
    calls = round(slow.node.parallelism or 1)
    each = slow.batch_s / slow.batch_size
    gains = (LOCAL[0] * blocked, LOCAL[1] * blocked, blocked)
    return _prove(
        facts,
        slow,
        f"Calls of {slow.describe_call()} wait {format_duration(each)} each for storage or the "
        f"network, {calls} at a time",
        from_gains(gains, "P1: local samples"),
        InputFacts(workers=calls, waits=True, parallel=True, pipeline="waits"),
    )


def _prove(
    facts: Facts, slow: SlowStage, headline: str, predicted: Predicted, known: InputFacts
) -> Proof:
    blocked = facts.bucket_share("input")
    return Proof(
        headline=headline,
        low=1.0 - 1.0 / predicted.low,
        high=blocked,
        predicted=predicted,
        evidence=(
            make_evidence("wait for batches, share of step", blocked, "ratio"),
            *stage_evidence(slow),
        ),
        confidence=0.8,
        where=pipeline_places(facts, slow),
        facts=known,
    )
