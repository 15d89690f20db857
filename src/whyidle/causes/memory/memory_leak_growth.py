"""Memory in use grows with every step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import remove
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence

LEAST_STEPS = 4
"""fewer step ends cannot tell a slope from a settling cache"""
STRAIGHT = 0.95
"""least squared correlation of memory with the step's number"""
LEAST_GROWTH = 1e-4
"""growth per step, as share of what is in use, below which it is noise"""


@cause(
    "Memory in use grows with every step",
    bucket="interruption",
    needs=("device_events", "memory_events", "steady_steps"),
    min_steps=LEAST_STEPS,
)
def memory_leak_growth(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Something keeps tensors of past steps alive: ``total += loss`` keeps every step's graph, a list
    collects outputs, a hook holds activations.

    Why it costs
    ------------
    Nothing now. When memory is full the allocator flushes its cache step by step, and then the
    job dies.

    How it is detected
    ------------------
    Allocated device memory at the ends of at least four steady steps rises by about the same
    amount each time (squared correlation at least 0.95, never falling). No gain is predicted; the
    evidence says how many steps are left.

    What looks alike
    ----------------
    Batches of changing length move memory up and down. Optimizer states appear once, in the first
    steps. Reserved memory may grow while the cache settles; only allocated memory is judged.

    What to do
    ----------
    ``.detach()`` or ``.item()`` (rarely) on accumulators, clear lists, remove hooks;
    ``torch.cuda.memory._record_memory_history`` names the line.

    References
    ----------
    PyTorch, FAQ, "My model reports 'cuda runtime error(2): out of memory'".
    """
    ends = _at_step_ends(facts)
    if len(ends) < LEAST_STEPS or (np.diff(ends) <= 0).any():
        return None
    number = np.arange(len(ends))
    slope = float(np.polyfit(number, ends, 1)[0])
    straight = float(np.corrcoef(number, ends)[0, 1] ** 2)
    if straight < STRAIGHT or slope < LEAST_GROWTH * ends[-1]:
        return None
    capacity = facts.timeline.info.memory_bytes
    left = int((capacity - ends[-1]) / slope) if capacity else None
    fate = f"; it is full in about {left} steps" if left is not None else ""
    return Proof(
        headline=f"Memory in use grows by {slope / 1e6:.3g} MB per step{fate}",
        low=0.0,
        high=0.0,
        predicted=remove(0.0, 0.0, "no gain before memory is full"),
        evidence=(
            Evidence(
                quantity="growth of allocated memory per step",
                value=slope,
                unit="bytes",
                window="steady steps",
                samples=len(ends),
                source="allocator events",
            ),
            Evidence(
                quantity="steps until memory is full",
                value=None if left is None else float(left),
                unit=None,
                window="steady steps",
                samples=len(ends),
                source="allocator events",
            ),
        ),
        confidence=0.7,
    )


def _at_step_ends(facts: Facts) -> NDArray[np.float64]:
    """Allocated bytes at the ends of the steps in scope that have allocator events."""
    memory, steps = facts.timeline.memory, facts.steps
    start, end = steps.start[facts.chosen], steps.end[facts.chosen]
    last = np.searchsorted(memory.time, end, side="right") - 1
    known = (last >= 0) & (memory.time[np.maximum(last, 0)] >= start)
    return memory.allocated[last[known]].astype(float)
