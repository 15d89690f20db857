"""Shared by the tf.data causes: the gain of parallel calls and of whole batches."""

from __future__ import annotations

from collections.abc import Sequence

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.input.tfdata_pipelines import (
    PYTHON,
    RANDOM,
    SlowStage,
    count_epochs,
    pipeline_work,
)
from whyidle.analysis.steps.forecast import from_gains, hidden_loading
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Evidence, Place, Predicted
from whyidle.model.proof_facts import InputFacts

MOST_CALLS = 16
"""most parallel calls of code that mostly waits, which takes no core. Each call holds a sample in
memory, and more calls than a batch has elements gain nothing"""


LEFT = (1.25, 0.75, 0.45)
"""step with whole batches, relative to its present work (low, expected, high gain). The pipeline's
threads no longer take its cores and the interpreter's lock: four small networks computed in 0.3 to
1 of the time (TensorFlow 2.21, two busy cores)"""


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
        low=gains[0],
        high=gains[2],
        predicted=from_gains(gains, "P1: whole batches, not single elements"),
        evidence=(make_evidence("wait for batches, share of step", blocked, "ratio"), *evidence),
        confidence=0.85,
        where=tuple(where),
        facts=InputFacts(pipeline=pipeline),
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
    one core each; the lower bound has a single core besides that of the step. Calls that wait need
    no core, but their Python needs the interpreter's lock."""
    work = slow.batch_s / facts.step_s
    fewest = max(1, calls // 2) if slow.waits else 1
    locked = max(0.0, pipeline_work(facts) or 0.0) if slow.is_python else 0.0
    gains = hidden_loading(
        *(blocked, work, (0.0, 0.0), facts.busy_ratio or 0.0),
        workers=(fewest, calls),
        floor=(0.0, locked),
        usual=locked,
        given=calls,
    )
    return from_gains(gains, f"P1: {calls} elements at a time")


def pipeline_places(facts: Facts, slow: SlowStage) -> tuple[Place, ...]:
    """Return the line that makes the stage, and the function that it calls."""
    places = (slow.place(facts.rank), slow.code_place(facts.rank))
    return tuple(dict.fromkeys(place for place in places if place is not None))


def is_repeated(slow: SlowStage) -> bool:
    """Whether a stage repeats the same work on the same elements, in order, in several epochs."""
    stages = slow.pipeline.stages
    if slow.stage is None or count_epochs(slow.pipeline) < 2:
        return False
    before = stages[stages.index(slow.stage) :]
    kinds = [kind for one in before for kind in one.operators]
    names = {one.name for one in before}
    return (
        not any(RANDOM.search(kind) or kind in PYTHON for kind in kinds)
        and not names & {"Shuffle", "Repeat", "Cache"}
        and bool(slow.stage.operators)
    )
