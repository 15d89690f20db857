"""Python's garbage collector stops the training loop."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.cache_emptying import FROM_MEMORY_S, at_most_s
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import predict_removal
from whyidle.analysis.pauses import Pauses, find_pauses
from whyidle.causes.interruption._gc_generations import (
    THINNED_STEPS,
    full_collections,
    remaining_after_freeze,
)
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Predicted
from whyidle.model.proof_facts import InterruptionFacts
from whyidle.model.roles import Role

LEAST_SHARE = 0.01
"""share of the step below which collections are not worth a word"""
LEFT_AT_WORST = 0.5
"""residual at the careful end, where the recording does not tell old objects' collections from
young ones': what lives on after a freeze is still looked through"""

EACH = 0.9
"""share of the steps with a collection from which on it is said to be in each"""
QUIET = 0.25
"""quantile of the rest of a step that stands for one that is not disturbed"""
FEW = 5
"""steps of both kinds that are needed to tell what a collection leaves behind from the steps"""


@cause(
    "Python's garbage collector stops the training loop",
    bucket="interruption",
    needs=("device_time", "steps", "pause_marks"),
    watched=("device_marks", "steps", "pause_marks"),
)
def python_gc_pauses(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Python looks through all its objects for garbage while the GPU waits; either by itself, because
    many objects live, or because the program calls ``gc.collect()`` in its loop.

    Why it costs
    ------------
    A full collection of a large heap takes 50 ms to 2 s on the thread that launches the GPU's
    work. With many ranks another one is late every time, and all wait for it.

    How it is detected
    ------------------
    The device is idle during ``Python GC`` events or calls of ``gc.collect`` on the launching
    thread. A collection also leaves the caches cold. Where the device is the CPU, what the step
    pays for that is told by how much longer the rest of steps with one is than of steps without;
    where every step has one it is bounded by what a core's cache holds. A single collection that
    took longer than all others together counts half: it does not tell how often it comes.

    A watched run tells which generations a collection looks through. Young objects are still
    looked through after a freeze, but once; that leaves no cache cold, as they were just made.
    Full collections are rarer and leave out what was frozen; how much longer each takes than the
    one before tells what is added to the heap.

    What looks alike
    ----------------
    ``torch.cuda.empty_cache`` beside the call is ``allocator-thrash``. A pause without a mark is
    not blamed on the collector.

    What to do
    ----------
    Freeze the heap after warm-up (``gc.collect(); gc.freeze()``) and collect young objects only,
    at the same step on all ranks. Remove calls of ``gc.collect()`` from the loop.

    References
    ----------
    Python documentation, ``gc.freeze``; torchtitan issue 148; Lin et al., "Understanding
    Stragglers in Large Model Training Using What-if Analysis", OSDI 2025.
    """
    found = find_pauses(facts, Role.GC)
    if found is None or found.share < LEAST_SHARE:
        return None
    explicit = _asked_for(facts, found)
    left_over = facts.step_count / (max(found.steps_hit, 1) * THINNED_STEPS)
    gains = _collection_gains(
        facts, found, None if explicit else remaining_after_freeze(facts, found)
    )
    cause_of = "The program's own gc.collect()" if explicit else "Python's garbage collector"
    return Proof(
        headline=f"{cause_of} holds the training loop for {found.share:.0%} of the step",
        low=gains[0],
        high=found.share,
        predicted=predict_removal(gains[0], gains[2], "P9: collections off the step", gains[1]),
        evidence=(
            make_evidence("device idle during collections, share of step", found.share, "ratio"),
            make_evidence("time collecting garbage", found.total_s, "s", samples=len(found.spans)),
            make_evidence("longest collection", found.longest_s, "s"),
            make_evidence(
                "steps with a collection", found.steps_hit, None, samples=facts.step_count
            ),
        ),
        confidence=0.9 if found.is_recurring else 0.7,
        where=(found.place,) if found.place else (),
        facts=InterruptionFacts(
            explicit=explicit,
            left_over=left_over,
            thinned=_predict_rarer_calls(facts, found, left_over) if explicit else None,
        ),
    )


def _collection_gains(
    facts: Facts, found: Pauses, remaining: tuple[float, float, float] | None
) -> tuple[float, float, float]:
    """Shares of the step won: careful, expected, hopeful. Without collections caches stay warm,
    too, which only a CPU's step is known to gain by."""
    if not found.is_recurring:
        return 0.0, found.share / 2, found.share
    once_s = _once_s(found)
    recurring = found.share - min(once_s / facts.scope_s, found.share)
    kept = remaining or (recurring * LEFT_AT_WORST, 0.0, 0.0)
    cold = _cache_loss(facts, full_collections(facts, found), once_s)
    expected = (found.share + recurring) / 2 + cold[0] - kept[1]
    return max(recurring - kept[0], 0.0), expected, found.share + cold[1] - kept[2]


def _predict_rarer_calls(facts: Facts, found: Pauses, left_over: float) -> Predicted | None:
    """What rarer calls win. None where they are that rare already."""
    if left_over >= 1.0:
        return None
    careful, expected, hopeful = _collection_gains(facts, found, (left_over * found.share,) * 3)
    return predict_removal(careful, hopeful, "P9: collections in fewer steps", expected)


def _cache_loss(facts: Facts, found: Pauses | None, once_s: float) -> tuple[float, float]:
    """What collections leave behind for the steps, as share: expected and at most."""
    if found is None:
        return 0.0, 0.0
    cold_s = _cold_s(found, once_s) if facts.on_cpu else (0.0, 0.0)
    often = found.steps_hit / max(facts.step_count, 1)
    expected, most = (cold * often / facts.step_s for cold in cold_s)
    if found.steps_hit > EACH * facts.step_count:  # nothing is known of a step without one
        least = float(np.quantile(found.rest_s, QUIET))
        most = max(most, 1.0 - (least - cold_s[1]) / facts.step_s - found.share)
    return expected, most


def _once_s(found: Pauses) -> float:
    """What the longest collection took, s, where that is more than all others together: how often
    such a one comes is not known. Python looks through all objects when a quarter of them is new,
    which is ever rarer, while young ones are looked through all the time."""
    longest = float(found.idle_s.max())
    return longest if longest > found.idle_s.sum() - longest else 0.0


def _cold_s(found: Pauses, once_s: float) -> tuple[float, float]:
    """What a collection leaves behind for its step, s: expected and at most. The steps tell, where
    some of them have none; else half of the bound is expected."""
    hit, others = found.rest_s[found.hit], found.rest_s[~found.hit]
    if min(len(hit), len(others)) >= FEW:
        cold = max(0.0, float(np.median(hit) - np.median(others)))
        return cold, cold
    usual_s = max(found.total_s - once_s, 0.0) / found.steps_hit
    most = at_most_s(FROM_MEMORY_S, usual_s, float(np.median(hit)))
    return most / 2, most


def _asked_for(facts: Facts, found: Pauses) -> bool:
    """Whether most of the time lies in calls of ``gc.collect`` that the program makes."""
    host = facts.timeline.host
    rows = facts.rows_of(Role.GC_CALL)
    inside = found.spans.length_inside(host.start[rows], host.end[rows])
    return bool(np.sum(inside) > 0.5 * found.spans.total)
