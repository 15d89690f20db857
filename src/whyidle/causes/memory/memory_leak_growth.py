"""Memory in use grows with every step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.telemetry_window import TelemetryWindow
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Place
from whyidle.model.number_text import format_digits

LEAST_STEPS = 4
"""with fewer step ends, a leak looks like a settling cache"""
LEAST_READS = 5
WARM_STEPS = 3
"""optimizer states and caches of the first steps are not a leak"""
LEAST_BYTES = 64 << 20
"""smaller growth of a process may be an arena of the C library's allocator"""
CLEARED_PER_S = 2e9
"""least bytes of fresh memory per second that a core clears and maps"""
STEADY = 0.5
"""least growth rate of the second half / rate of the whole; a cache settles"""
STRAIGHT = 0.95
"""least squared correlation of memory with the step number"""
LEAST_GROWTH = 1e-4
"""growth per step, as share of the memory in use, below which it is noise"""


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
    Tensors of past steps stay alive: ``total += loss`` retains every step's graph, a list collects
    outputs, or a hook holds activations.

    Why it costs
    ------------
    It costs nothing at first. When memory is full, the allocator flushes its cache in every step,
    and finally the job fails.

    How it is detected
    ------------------
    Trace: allocated device memory rises with each of at least four steady steps, by nearly the same
    amount (squared correlation at least 0.95). Watched job on the CPU: the process's memory, read
    every second, grows as steadily and by more than 64 MiB. The report names a line that retains
    each step's graph, and the steps until memory is full. The predicted gain is only the time to
    clear new host memory.

    What looks alike
    ----------------
    With batches of varying length, memory also falls. Optimizer states appear once, in the first
    steps. Reserved memory may grow while the cache settles; only allocated memory counts.

    What to do
    ----------
    Call ``.detach()``, or rarely ``.item()``, on accumulators. Clear lists and remove hooks.
    ``torch.cuda.memory._record_memory_history`` shows the line that allocates.

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
    outlook = f"; it is full in about {left} steps" if left is not None else ""
    growth: tuple[str, float, str | None] = ("growth of allocated memory per step", slope, "bytes")
    listed = [growth] if left is None else [growth, ("steps until memory is full", left, None)]
    source, window = "allocator events", "steady steps"
    return Proof(
        headline=f"Memory in use grows by {format_digits(slope / 1e6)} MB per step{outlook}",
        predicted=predict_removal(0.0, 0.0, "no gain before memory is full"),
        evidence=tuple(
            make_evidence(*row, samples=len(ends), source=source, window=window) for row in listed
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
    reads = np.array(facts.timeline.process.memory, dtype=np.float64).reshape(-1, 3)
    reads = reads[reads[:, 1] >= WARM_STEPS]  # ns, steps, bytes
    if len(reads) < LEAST_READS or np.ptp(reads[:, 1]) == 0:
        return None
    reads = reads[len(reads) // LEAST_READS :]
    steps, used = reads[:, 1], reads[:, 2]
    slope = float(np.polyfit(steps, used, 1)[0])
    late = float(np.polyfit(steps[len(steps) // 2 :], used[len(steps) // 2 :], 1)[0])
    straight = float(np.corrcoef(steps, used)[0, 1] ** 2) if np.ptp(used) else 0.0
    if used[-1] - used[0] < LEAST_BYTES or straight < STRAIGHT or late < STEADY * slope:
        return None
    evidence = [
        make_evidence("growth of the process per step", slope, "bytes", samples=len(reads)),
        make_evidence("final memory of the process", float(used[-1]), "bytes", source="/proc"),
        make_evidence("process id", facts.timeline.process.pid or 0, None),
    ]
    free, outlook = _remaining_memory(facts.telemetry), ""
    if free is not None:
        left = round(free / slope)
        outlook = f"; the host is full in about {left} steps ({left * facts.step_s:.2g} s)"
        evidence.append(make_evidence("steps until the host is full", left, None))
    high = min(slope / CLEARED_PER_S / max(facts.step_s, 1e-9), facts.bucket_share("compute"))
    lines = facts.timeline.kept_losses
    reason = f": {lines[0].text} retains each step's graph" if lines else ""
    return Proof(
        headline=f"The process grows by {format_digits(slope / 1e6)} MB per step{outlook}{reason}",
        predicted=predict_removal(0.0, high, "fresh pages are cleared at 2 GB/s or more"),
        evidence=tuple(evidence),
        confidence=0.9 if lines else 0.7,
        bucket="compute",
        where=tuple(
            Place(file=line.file, line=line.line, function=line.function, rank=facts.rank)
            for line in lines[:3]
        ),
    )


def _remaining_memory(telemetry: TelemetryWindow | None) -> float | None:
    """Free bytes of the host or the job's control group at the end; None if unknown."""
    if telemetry is None:
        return None
    free = telemetry.values_read("machine_memory_available_bytes")
    limit, used = (telemetry.values_read(f"group_memory{name}_bytes") for name in ("_limit", ""))
    known = [float(free[-1])] if len(free) else []
    known += [float(limit[-1] - used[-1])] if len(limit) and len(used) else []
    return min(known, default=None)
