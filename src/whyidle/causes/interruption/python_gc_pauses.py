"""Python's garbage collector stops the training loop."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.partition.pauses import Pauses, find_pauses
from whyidle.analysis.steps.after_effects import after_effect
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.causes.host._debug_modes import debugging_time
from whyidle.model.cause import LEAST_SHARE, LEFT_AT_WORST, MOSTLY, Proof, cause
from whyidle.model.diagnosis import Predicted
from whyidle.model.proof_facts import InterruptionFacts
from whyidle.model.roles import Role

THINNED_STEPS = 100
"""steps between the program's own collections, once its calls are thinned"""


@cause(
    "Python's garbage collector stops the training loop",
    bucket="interruption",
    needs=("device_time", "steps", "pause_marks"),
    watched=("device_marks", "steps", "pause_marks"),
)
def python_gc_pauses(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Training waits while Python's garbage collector examines all objects. It runs either
    automatically, because many objects are alive, or because the program calls ``gc.collect()`` in
    its loop.

    Why it costs
    ------------
    A full collection of a large heap takes 50 ms to 2 s on the training thread. With many ranks, a
    different rank is late each time, and all wait for it.

    How it is detected
    ------------------
    The device is idle during ``Python GC`` events or calls of ``gc.collect`` on the launching
    thread, for at least 1 % of the step. On a CPU, the cost of cold caches after a collection is
    added: the difference between steps with and without one. A collection that took longer than all
    others together counts half, because its frequency is unknown.

    The prediction assumes that hardly any of this time is left once the heap is frozen (P9).

    What looks alike
    ----------------
    Collections in the code of a debugging mode or a profiler are reported as
    ``debug-mode-left-on``. ``torch.cuda.empty_cache`` next to the call is reported as
    ``allocator-thrash``. A pause without a recorded collection is not attributed to the collector.

    What to do
    ----------
    Freeze the heap after warm-up (``gc.collect(); gc.freeze()``) and collect only young objects, at
    the same step on all ranks. Remove calls of ``gc.collect()`` from the loop.

    References
    ----------
    Python documentation, ``gc.freeze``; torchtitan issue 148; Lin et al., "Understanding Stragglers
    in Large Model Training Using What-if Analysis", OSDI 2025.
    """
    pauses = find_pauses(facts, Role.GC)
    if pauses is None or pauses.share < LEAST_SHARE:
        return None
    if (pauses.spans & debugging_time(facts)).total > MOSTLY * pauses.spans.total:
        return None  # a mode makes the objects: it is the cause
    explicit = _is_explicit(facts, pauses)
    left_over = facts.step_count / (max(pauses.steps_hit, 1) * THINNED_STEPS)
    gains = _collection_gains(facts, pauses)
    absent = _collection_gains(facts, pauses, 0.0)
    collector = "The program's own gc.collect()" if explicit else "Python's garbage collector"
    return Proof(
        headline=f"{collector} holds up the training loop for {pauses.share:.0%} of the step",
        low=gains[0],
        high=pauses.share,
        predicted=predict_removal(gains[0], gains[2], "P9: collections off the step", gains[1]),
        removal=predict_removal(absent[0], absent[2], "P9: no collections", absent[1]),
        evidence=(
            make_evidence("device idle during collections, share of step", pauses.share, "ratio"),
            make_evidence("time collecting", pauses.total_s, "s", samples=len(pauses.spans)),
            make_evidence("longest collection", pauses.longest_s, "s"),
            make_evidence("steps with a collection", pauses.steps_hit, None),
        ),
        confidence=0.9 if pauses.is_recurring else 0.7,
        where=(pauses.place,) if pauses.place else (),
        facts=InterruptionFacts(
            explicit=explicit,
            left_over=left_over,
            thinned=_predict_rarer_calls(facts, pauses, left_over) if explicit else None,
        ),
    )


def _collection_gains(
    facts: Facts, pauses: Pauses, remaining: float | None = None
) -> tuple[float, float, float]:
    """Shares of the step gained (low, expected, high) if collections take the ``remaining`` share;
    None: hardly any, and some at worst. Warm caches gain on CPUs only."""
    if not pauses.is_recurring:
        return 0.0, pauses.share / 2, pauses.share
    single_s = _single_pause_s(pauses)
    recurring = pauses.share - min(single_s / facts.scope_s, pauses.share)
    worst = recurring * LEFT_AT_WORST if remaining is None else remaining
    left, cold = remaining or 0.0, after_effect(facts, pauses) or (0.0, 0.0, 0.0)
    careful = max(recurring - worst, 0.0)
    careful += 0.0 if worst else cold[0]  # a collection that remains may be the cold one
    expected = (pauses.share + recurring) / 2 + cold[1] - left
    return careful, expected, pauses.share + cold[2] - left


def _predict_rarer_calls(facts: Facts, pauses: Pauses, left_over: float) -> Predicted | None:
    if left_over >= 1.0:
        return None
    careful, expected, hopeful = _collection_gains(facts, pauses, left_over * pauses.share)
    return predict_removal(careful, hopeful, "P9: collections in fewer steps", expected)


def _single_pause_s(pauses: Pauses) -> float:
    """Time of the longest collection (s) if it exceeds all others together: its frequency is then
    unknown, since Python runs full collections only when a quarter of the objects is new."""
    longest = float(pauses.idle_s.max())
    return longest if longest > pauses.idle_s.sum() - longest else 0.0


def _is_explicit(facts: Facts, pauses: Pauses) -> bool:
    """Whether most of the time is in the program's own calls of ``gc.collect``."""
    host = facts.timeline.host
    rows = facts.rows_of(Role.GC_CALL)
    inside = pauses.spans.length_inside(host.start[rows], host.end[rows])
    return bool(np.sum(inside) > 0.5 * pauses.spans.total)
