"""Memory in use grows with every step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import predict_removal
from whyidle.analysis.telemetry_window import TelemetryWindow
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.number_text import format_digits

LEAST_STEPS = 4
"""fewer step ends cannot tell a slope from a settling cache"""
LEAST_READS = 5
WARM_STEPS = 3
"""optimizer states and caches of the first steps are no leak"""
LEAST_BYTES = 64 << 20
"""growth of a process below this may be an arena of the C library's allocator"""
CLEARED_PER_S = 2e9
"""bytes of fresh memory that a core clears and maps, at least"""
STILL = 0.5
"""the second half of a leak grows at least this much as fast as the whole; a cache settles"""
STRAIGHT = 0.95
"""least squared correlation of memory with the step's number"""
LEAST_GROWTH = 1e-4
"""growth per step, as share of what is in use, below which it is noise"""


@cause(
    "Memory in use grows with every step",
    bucket="interruption",
    needs=("device_events", "memory_events", "steady_steps"),
    min_steps=LEAST_STEPS,
    watched=("own_settings", "steady_steps"),
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
    amount each time (squared correlation at least 0.95, never falling). Of a watched job it is the
    memory of the process on the host, read every second, by more than 64 MiB and straight to the
    end; where a line of the script keeps each step's loss with its graph, it is named. No gain is
    predicted but, on the host, that of clearing fresh memory; the evidence says how many steps are
    left.

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
    if not len(facts.device):
        return _on_host(facts)
    ends = _at_step_ends(facts)
    if len(ends) < LEAST_STEPS or (np.diff(ends) <= 0).any():
        return None
    number = np.arange(len(ends))
    slope = float(np.polyfit(number, ends, 1)[0])
    straight = float(np.corrcoef(number, ends)[0, 1] ** 2)
    if straight < STRAIGHT or slope < LEAST_GROWTH * ends[-1]:
        return None
    capacity = facts.timeline.info.memory_bytes
    left = round((capacity - ends[-1]) / slope) if capacity else None
    fate = f"; it is full in about {left} steps" if left is not None else ""
    return Proof(
        headline=f"Memory in use grows by {format_digits(slope / 1e6)} MB per step{fate}",
        low=0.0,
        high=0.0,
        predicted=predict_removal(0.0, 0.0, "no gain before memory is full"),
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
    if not len(memory.time):
        return np.empty(0)
    start, end = steps.start[facts.steps_in_scope], steps.end[facts.steps_in_scope]
    last = np.searchsorted(memory.time, end, side="right") - 1
    known = (last >= 0) & (memory.time[np.maximum(last, 0)] >= start)
    return memory.allocated[last[known]].astype(float)


def _on_host(facts: Facts) -> Proof | None:
    """The memory of a watched process, against its steps."""
    reads = np.array(facts.timeline.process.memory, dtype=np.float64).reshape(-1, 3)
    reads = reads[reads[:, 1] >= WARM_STEPS]  # ns, steps, bytes
    if len(reads) < LEAST_READS or np.ptp(reads[:, 1]) == 0:
        return None
    reads = reads[len(reads) // LEAST_READS :]
    steps, used = reads[:, 1], reads[:, 2]
    slope = float(np.polyfit(steps, used, 1)[0])
    late = float(np.polyfit(steps[len(steps) // 2 :], used[len(steps) // 2 :], 1)[0])
    straight = float(np.corrcoef(steps, used)[0, 1] ** 2) if np.ptp(used) else 0.0
    if used[-1] - used[0] < LEAST_BYTES or straight < STRAIGHT or late < STILL * slope:
        return None
    room = _remaining_memory(facts.telemetry)
    left = round(room / slope) if room is not None else None
    seconds = f" ({left * facts.step_s:.2g} s)" if left is not None else ""
    fate = f"; the host is full in about {left} steps{seconds}" if left is not None else ""
    high = min(slope / CLEARED_PER_S / max(facts.step_s, 1e-9), facts.bucket_share("compute"))
    kept = facts.timeline.kept_losses
    blame = f": {kept[0].text} keeps each step's graph" if kept else ""
    return Proof(
        headline=f"The process grows by {format_digits(slope / 1e6)} MB per step{fate}{blame}",
        low=0.0,
        high=high,
        predicted=predict_removal(0.0, high, "fresh pages are cleared at 2 GB/s or more"),
        evidence=(
            make_evidence("growth of the process per step", slope, "bytes", samples=len(reads)),
            make_evidence(
                "memory of the process at the end", float(used[-1]), "bytes", source="/proc"
            ),
            make_evidence("its process id", facts.timeline.process.pid or 0, None),
            *([] if left is None else [make_evidence("steps until the host is full", left, None)]),
        ),
        confidence=0.9 if kept else 0.7,
        bucket="compute",
        where=tuple(
            Place(file=one.file, line=one.line, function=one.function, rank=facts.rank)
            for one in kept[:3]
        ),
    )


def _remaining_memory(outside: TelemetryWindow | None) -> float | None:
    """Bytes that the host, or the job's control group, still has at the end; None: unknown."""
    if outside is None:
        return None
    free = outside.values_read("machine_memory_available_bytes")
    limit, used = (outside.values_read(f"group_memory{name}_bytes") for name in ("_limit", ""))
    known = [float(free[-1])] if len(free) else []
    known += [float(limit[-1] - used[-1])] if len(limit) and len(used) else []
    return min(known, default=None)
