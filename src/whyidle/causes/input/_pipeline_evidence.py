"""Shared by the tf.data causes: the gain of parallel calls, of whole batches, and of a cache."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.core_capacity import idle_cores
from whyidle.analysis.input.tfdata_pipelines import (
    PYTHON,
    RANDOM,
    SlowStage,
    count_epochs,
    find_slow_stage,
    pipeline_work,
    stage_evidence,
)
from whyidle.analysis.input.worker_capacity import available_memory
from whyidle.analysis.steps.forecast import from_gains, hidden_loading
from whyidle.model.cause import LEAST_SHARE, Proof
from whyidle.model.diagnosis import Evidence, Place, Predicted
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import InputFacts

CHEAPER = (1 / 3, 1 / 2)
"""part of the work that cheaper operators save (lower bound, expected), as for loaders"""
MEDIA = re.compile(
    r"^Decode(AndCrop)?(Jpeg|Png|Gif|Bmp|Image|WebP|Wav)|Resize|RandomCrop|AdjustContrast"
)
"""operators that decode or change pictures and sound, not records of numbers"""
MOST_CALLS = 16
"""most parallel calls of code that mostly waits, which takes no core. Each call holds a sample in
memory, and more calls than a batch has elements gain nothing"""
LEFT = (1.25, 0.75, 0.45)
"""step without most of a pipeline's work, relative to its present work (low, expected, high gain).
The pipeline's threads no longer take its cores and the interpreter's lock: four small networks
computed in 0.3 to 1 of the time (TensorFlow 2.21, two busy cores)"""


def prove_whole_batches(
    facts: Facts,
    headline: str,
    evidence: Sequence[Evidence],
    *,
    blocked: float,
    kept_s: float,
    where: Sequence[Place],
    pipeline: str,
) -> Proof:
    """Prove that a pipeline handles single elements instead of whole batches. ``kept_s`` is the
    time that making a batch still takes: before the step, during the step, or none."""
    slow, usual, quick = ((1.0 - blocked) * left for left in LEFT)
    kept = kept_s / facts.step_s
    gains = (max(0.0, 1.0 - slow - kept), 1.0 - max(usual, kept), 1.0 - quick)
    return Proof(
        headline=headline,
        predicted=from_gains(gains, "P1: whole batches, not single elements"),
        evidence=(make_evidence("wait for batches, share of step", blocked, "ratio"), *evidence),
        confidence=0.85,
        where=tuple(where),
        facts=InputFacts(pipeline=pipeline),
    )


def gains_without(facts: Facts, slow: SlowStage, blocked: float) -> tuple[float, float, float]:
    """Return the shares of the step won without the work of a stage: the wait for it and, where it
    takes cores that operators of the step lack, a part of the step's own work."""
    idle = idle_cores(facts)
    shared = facts.on_cpu and not slow.is_serial and idle is not None and idle < 1.0
    low, usual, high = (min(left, 1.0) if shared else 1.0 for left in LEFT)
    rest = 1.0 - blocked
    return 1.0 - low * rest, 1.0 - usual * rest, 1.0 - high * rest


def prove_stage(
    facts: Facts,
    slow: SlowStage,
    headline: str,
    predicted: Predicted,
    known: InputFacts,
    *more: Evidence,
    confidence: float = 0.8,
) -> Proof:
    """Prove that steps wait for the slowest stage of their pipeline."""
    blocked = facts.bucket_share("input")
    low = 1.0 - 1.0 / predicted.low
    return Proof(
        headline=headline,
        low=min(low, blocked),
        high=max(low, blocked),
        predicted=predicted,
        evidence=(
            make_evidence("wait for batches, share of step", blocked, "ratio"),
            *more,
            *stage_evidence(slow),
        ),
        confidence=confidence,
        where=pipeline_places(facts, slow),
        facts=known,
    )


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
    operators = slow.stage.operators if slow.stage else ()
    return prove_stage(
        facts,
        slow,
        f"The tf.data stage {slow.describe_call()} takes {format_duration(slow.batch_s)} per "
        f"batch{lock}",
        predict_less_work(facts, slow, "P1: cheaper preprocessing"),
        InputFacts(
            compute=1.0 if facts.on_cpu else facts.bucket_share("compute"),
            inside=True,
            same_again=False,
            function=slow.stage.function if slow.stage else None,
            media=any(MEDIA.search(kind) for kind in operators),
            pipeline="python" if slow.is_python else "operators",
            **describe_cache(facts, slow),
        ),
    )


def choose_calls(facts: Facts, slow: SlowStage) -> int:
    """Return how many elements a stage should handle at a time. For an ``interleave``, the number
    of its sources is the limit, which keeps the order."""
    if slow.is_interleave and slow.is_serial and slow.node.parallelism:
        return max(1, min(MOST_CALLS, int(slow.node.parallelism)))
    if slow.waits:
        return max(2, min(MOST_CALLS, slow.batch_size))
    return max(2, int(facts.timeline.process.cores or 2))


def predict_calls(facts: Facts, slow: SlowStage, calls: int, blocked: float) -> Predicted:
    """Predict the step if the stage handles ``calls`` elements at a time. Calls that compute need
    one core each, and where the step computes on the CPU, too, its operators have one core or all
    of them; the lower bound has a single core besides that of the step. Calls that wait need no
    core, but their Python needs the interpreter's lock."""
    work, cores = slow.batch_s / facts.step_s, max(1.0, facts.timeline.process.cores or 1.0)
    fewest = max(1, calls // 2) if slow.waits else 1
    locked = max(0.0, pipeline_work(facts) or 0.0) if slow.is_python else 0.0
    floor, usual = (0.0, locked), locked
    if facts.on_cpu and slow.waits is False:
        floor = (work + 1.0 - blocked) / cores, work / cores + 1.0 - blocked
        usual = sum(floor) / 2
    gains = hidden_loading(
        *(blocked, work, (0.0, 0.0), facts.bucket_share("compute")),
        workers=(fewest, calls),
        floor=floor,
        usual=usual,
        given=calls,
    )
    return from_gains(gains, f"P1: {calls} elements at a time")


def pipeline_places(facts: Facts, slow: SlowStage) -> tuple[Place, ...]:
    """Return the line that makes the stage, and the function that it calls."""
    places = (slow.place(facts.rank), slow.code_place(facts.rank))
    return tuple(dict.fromkeys(place for place in places if place is not None))


def is_repeated(slow: SlowStage, *, partly: bool = False) -> bool:
    """Whether a stage repeats the same work on the same elements in several epochs: all of it, or
    ``partly``, what its function decodes before it draws random numbers."""
    stages = slow.pipeline.stages
    if slow.stage is None or not slow.stage.operators or count_epochs(slow.pipeline) < 2:
        return False
    own, *before = stages[stages.index(slow.stage) :]
    kinds = [*own.operators, *(kind for one in before for kind in one.operators)]
    if PYTHON.intersection(kinds) or {one.name for one in before} & {"Repeat", "Cache"}:
        return False
    if not partly:
        return not any(map(RANDOM.search, kinds))
    drawn = any(map(RANDOM.search, kinds[len(own.operators) :]))
    whole = any(kind.startswith("Decode") for kind in own.operators)
    crop = any("AndCrop" in kind for kind in own.operators)  # random before it decodes
    return whole and not drawn and not crop and any(map(RANDOM.search, own.operators))


def describe_cache(facts: Facts, slow: SlowStage) -> dict[str, Any]:
    """Return what fixes are told of a cache behind a stage, or within its function (whose gain is
    predicted: how much of the work comes before random operators, the recording does not tell): its
    line, its size, whether that fits into memory, whether elements are shuffled before it."""
    place, size, room = slow.place(facts.rank), slow.epoch_bytes, None
    if facts.telemetry is not None:
        room = available_memory(facts.telemetry)
    before = slow.pipeline.stages[slow.pipeline.stages.index(slow.stage) :] if slow.stage else ()
    method, partly = "P1: cached before the first random operator", is_repeated(slow, partly=True)
    return {
        "cached": predict_less_work(facts, slow, method) if partly else None,
        "line": f"{PurePath(place.file).name}:{place.line}" if place and place.file else "",
        "epoch_bytes": size,
        "fits": size is None or room is None or size < room,
        "shuffled": any(one.name == "Shuffle" for one in before),
    }


def predict_less_work(facts: Facts, slow: SlowStage, method: str) -> Predicted:
    """Predict the step with a part of the work of a stage."""
    blocked = facts.bucket_share("input")
    _, usual, high = gains_without(facts, slow, blocked)
    return from_gains((min(CHEAPER[0], blocked), min(CHEAPER[1], usual), high), method)
