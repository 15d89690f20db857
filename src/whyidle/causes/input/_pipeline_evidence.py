"""What the causes in pipelines of tf.data share: the gain of handling more elements at a time."""

from __future__ import annotations

from whyidle.analysis.facts import Facts
from whyidle.analysis.input.tfdata_pipelines import (
    PYTHON,
    RANDOM,
    SlowStage,
    count_epochs,
    pipeline_work,
)
from whyidle.analysis.steps.forecast import from_gains, hidden_loading
from whyidle.model.diagnosis import Place, Predicted

MOST_CALLS = 16
"""calls at a time for code that mostly waits. Waiting takes no core; beyond a batch's elements more
calls gain nothing, and each holds a sample in memory"""


LEFT = (1.25, 0.75, 0.45)
"""step without its wait for batches when these are made whole, relative to now (careful, expected,
hopeful). Meanwhile threads of the pipeline take its cores and the interpreter's lock: four small
networks computed in 0.3 to 1 of the time (TensorFlow 2.21, two busy cores)"""


def predict_whole_batches(blocked: float, kept: float) -> Predicted:
    """Predict the step if elements are handled as whole batches; ``kept`` is what making a batch
    takes all the same, as share of the step: before it, beside it, or not at all."""
    slow, usual, quick = ((1.0 - blocked) * left for left in LEFT)
    gains = (max(0.0, 1.0 - slow - kept), 1.0 - max(usual, kept), 1.0 - quick)
    return from_gains(gains, "P1: whole batches, not single elements")


def choose_calls(facts: Facts, slow: SlowStage) -> int:
    """Return how many elements a stage should handle at a time; of an ``interleave``, at most the
    sources that it cycles through, which stay as they are for the order."""
    if slow.is_interleave and slow.is_serial and slow.node.parallelism:
        return max(1, min(MOST_CALLS, int(slow.node.parallelism)))
    if slow.waits:
        return max(2, min(MOST_CALLS, slow.batch_size))
    return max(2, int(facts.timeline.process.cores or 2))


def predict_calls(facts: Facts, slow: SlowStage, calls: int, blocked: float) -> Predicted:
    """Predict the step if the stage handles ``calls`` elements at a time. Work needs a core for
    each, and careful gets one besides that of the step; what waits needs none. Of Python that
    waits, the rest holds the interpreter's lock: one call after the other."""
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
    """Whether a stage makes the same of the same elements in the same order, in several epochs."""
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
