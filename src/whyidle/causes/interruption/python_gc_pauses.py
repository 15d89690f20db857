"""Python's garbage collector stops the training loop."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import measured
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import interruptions, remove
from whyidle.analysis.pauses import Pauses, pauses
from whyidle.model.cause import Proof, cause

LEAST_SHARE = 0.01
"""share of the step below which collections are not worth a word"""
LEFT_AT_WORST = 0.5
"""residual at the careful end: what lives on after a freeze is still looked through"""

EACH = 0.9
"""share of the steps with a collection from which on it is said to be in each"""


@cause(
    "Python's garbage collector stops the training loop",
    bucket="interruption",
    needs=("device_time", "steps", "pause_marks"),
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
    thread.

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
    found = pauses(facts, "gc")
    if found is None or found.share < LEAST_SHARE:
        return None
    explicit = _asked_for(facts, found)
    low = interruptions(found.share, LEFT_AT_WORST) if found.recurring else 0.0
    expected = found.share if found.recurring else found.share / 2
    cause_of = "The program's own gc.collect()" if explicit else "Python's garbage collector"
    return Proof(
        headline=f"{cause_of} holds the training loop for {found.share:.0%} of the step",
        low=low,
        high=found.share,
        predicted=remove(low, _hopeful(facts, found), "P9: collections off the step", expected),
        evidence=(
            measured("device idle during collections, share of step", found.share, "ratio"),
            measured("time collecting garbage", found.seconds, "s", samples=len(found.spans)),
            measured("longest collection", found.longest_s, "s"),
            measured("steps with a collection", found.steps_hit, None, samples=facts.step_count),
        ),
        confidence=0.9 if found.recurring else 0.7,
        where=(found.place,) if found.place else (),
        facts={"explicit": explicit},
    )


def _hopeful(facts: Facts, found: Pauses) -> float:
    """Where all steps are hit, what is left of one is not known from any other: collections also
    leave caches cold for it."""
    return found.quiet if found.steps_hit > EACH * facts.step_count else found.share


def _asked_for(facts: Facts, found: Pauses) -> bool:
    """Whether most of the time lies in calls of ``gc.collect`` that the program makes."""
    host = facts.timeline.host
    rows = facts.named(r"gc\.collect|<built-in function collect>|: collect_garbage")
    inside = found.spans.inside(host.start[rows], host.end[rows])
    return bool(np.sum(inside) > 0.5 * found.spans.total)
