"""Device memory is full, so the batch cannot grow, although it should."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence
from whyidle.model.process_facts import AllocatorFacts

FULL = 0.90
"""peak use of device memory that counts as full (peers warn between 80 and 92 %)"""
LEAST_EXPOSED = 0.05
"""share of the step lost to launching, below which a larger batch would gain little"""
DOUBLED = 0.5
"""with twice the batch the same launches serve twice the samples"""


@cause(
    "Device memory is full, and a larger batch would pay",
    bucket="host",
    needs=("device_events", "launch_links", "host_ops", "memory_events", "memory_capacity"),
    watched=("gpu_telemetry", "own_allocator"),
)
def memory_capacity_bound(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    The GPU waits for launches, which a larger batch would spread over more samples; but device
    memory is already full.

    Why it costs
    ------------
    Per sample the fixed cost of a step stays as high as it is.

    How it is detected
    ------------------
    Peak *allocated* memory over 90 % of the device's, and exposed launching time of more than 5 %
    of the step. What saving memory gains depends on what it costs (recomputing takes about a
    fifth more), so the careful prediction is nothing, the hopeful one half of the exposed time
    (P6: twice the batch for the same launches). Of a watched job the framework's allocator and NVML
    tell: allocated memory at its peak, and how long no kernel ran at all.

    What looks alike
    ----------------
    Reserved memory near the limit with little of it allocated is a full cache, not full memory. A
    busy GPU with full memory is well used.

    What to do
    ----------
    Reduced precision, fused losses, flash attention, selective checkpointing, sharded states;
    else the fixes of ``launch-bound-small-kernels``, which need no memory.

    References
    ----------
    "An Empirical Study on Low GPU Utilization of Deep Learning Jobs" (ICSE 2024), category
    "insufficient GPU memory".
    """
    if not len(facts.device):
        return _prove_from_facts(facts)
    capacity = facts.timeline.info.memory_bytes
    peak = int(facts.timeline.memory.allocated.max(initial=0))
    exposed = facts.launching.exposed_share(facts.launching.feeding_time)
    if not capacity or peak < FULL * capacity or exposed < LEAST_EXPOSED:
        return None
    return Proof(
        headline=f"Device memory is {peak / capacity:.0%} full, so the batch cannot grow, while "
        "the GPU waits for launches",
        low=0.0,
        high=exposed * DOUBLED,
        predicted=from_gains(
            (0.0, 0.0, exposed * DOUBLED), "P6: the same launches, twice the batch"
        ),
        evidence=(
            Evidence(
                quantity="peak allocated memory, share of the device's",
                value=peak / capacity,
                unit="ratio",
                window="recording",
                samples=len(facts.timeline.memory.time),
                source="allocator events",
            ),
            Evidence(
                quantity="device idle for want of launches, share of step",
                value=exposed,
                unit="ratio",
                window="steps in scope",
                samples=facts.step_count,
                source="attribution",
            ),
        ),
        confidence=0.5,
    )


def _prove_from_facts(facts: Facts) -> Proof | None:
    """A watched job, from what its allocator says and NVML reads."""
    told, outside = facts.timeline.process.allocator or AllocatorFacts(), facts.telemetry
    peak, whole = told.allocated_peak_bytes, told.device_bytes
    gpu = outside.own_gpus[0] if outside and outside.own_gpus else ""
    busy = outside.mean_value("busy_ratio", gpu) if outside else None
    if not peak or not whole or busy is None or peak < FULL * whole:
        return None
    idle = min(1.0 - busy, facts.bucket_share("unknown") + facts.bucket_share("host"))
    if idle < LEAST_EXPOSED:
        return None
    high = idle * DOUBLED
    return Proof(
        headline=f"Device memory is {peak / whole:.0%} full, so the batch cannot grow, while the "
        f"GPU is idle {1.0 - busy:.0%} of the time",
        low=0.0,
        high=high,
        predicted=from_gains((0.0, 0.0, high), "P6: the same launches, twice the batch"),
        evidence=(
            make_evidence(
                "peak allocated memory, share of the device's",
                peak / whole,
                "ratio",
                source="torch.cuda.memory_stats",
            ),
            make_evidence("time without any kernel", 1.0 - busy, "ratio", source="NVML"),
        ),
        confidence=0.4,
        bucket="unknown" if facts.bucket_share("unknown") >= high else None,
    )
