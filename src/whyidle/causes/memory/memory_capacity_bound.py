"""Device memory is full, and a larger batch would be faster."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.memory.memory_plan import MemoryPlan
from whyidle.analysis.steps.forecast import from_gains
from whyidle.model.cause import Proof, cause
from whyidle.model.process_facts import AllocatorFacts
from whyidle.model.proof_facts import MemoryFacts

FULL = 0.90
"""peak share of device memory that counts as full (peers warn between 80 and 92 %)"""
LEAST_EXPOSED = 0.05
"""share of the step lost to launching below which a larger batch gains little"""
DOUBLED = 0.5
"""with twice the batch, the same launches process twice the samples"""
METHOD = "P6: the same launches, twice the batch"
PEAK = "peak allocated memory, share of the device's"


@cause(
    "Device memory is full, and a larger batch would be faster",
    bucket="host",
    needs=("device_events", "launch_links", "host_ops", "memory_events", "memory_capacity"),
    watched=("gpu_telemetry", "own_allocator"),
)
def memory_capacity_bound(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    The GPU waits for launches. A larger batch needs fewer of them per sample, but memory is full.

    Why it costs
    ------------
    The fixed cost of a step is divided among few samples.

    How it is detected
    ------------------
    Peak allocated memory is at least 90 % of the device's memory, and the device waits for launches
    for at least 5 % of the step. In a watched job, the framework's allocator and NVML report these
    figures. Saving memory costs time (recomputation: about a fifth), so the lower bound and the
    expected gain are zero. The upper bound is half of the wait (P6).

    What looks alike
    ----------------
    Much reserved but little allocated memory is a full cache. A busy GPU with full memory is fine.

    What to do
    ----------
    Use reduced precision, fused losses, flash attention, selective checkpointing or sharded states.
    The fixes of ``launch-bound-small-kernels`` need no memory.

    References
    ----------
    "An Empirical Study on Low GPU Utilization of Deep Learning Jobs" (ICSE 2024), category
    "insufficient GPU memory".
    """
    if not len(facts.device):
        return _prove_from_facts(facts)
    capacity = facts.timeline.info.memory_bytes
    peak = int(facts.timeline.memory.allocated.max(initial=0))
    exposed = facts.kernel_launching.exposed_share(facts.kernel_launching.feeding_time)
    if not capacity or peak < FULL * capacity or exposed < LEAST_EXPOSED:
        return None
    samples, share, high = len(facts.timeline.memory.time), peak / capacity, exposed * DOUBLED
    waiting = "device waiting for launches, share of step"
    return Proof(
        headline=f"Device memory is {share:.0%} full, so the batch cannot grow, while the GPU "
        "waits for launches",
        predicted=from_gains((0.0, 0.0, high), METHOD),
        evidence=(
            make_evidence(
                PEAK, share, "ratio", window="recording", samples=samples, source="allocator events"
            ),
            make_evidence(waiting, exposed, "ratio", samples=facts.step_count),
        ),
        confidence=0.5,
        facts=_find_recomputable(facts),
    )


def _find_recomputable(facts: Facts) -> MemoryFacts:
    """The modules worth recomputing, by ``--look memory``."""
    look = facts.timeline.process.memory_look
    plan = None if look is None else MemoryPlan(look)
    chosen = plan.choose_recomputed(look.batch) if plan and look and look.batch else []
    if plan is None or look is None or not chosen:
        return MemoryFacts()
    names = ",".join(look.modules[number][0] for number in chosen)
    return MemoryFacts(recompute=names, again=plan.forward_share(chosen))


def _prove_from_facts(facts: Facts) -> Proof | None:
    """Prove it for a watched job, from its allocator's counters and NVML."""
    allocator, telemetry = facts.timeline.process.allocator or AllocatorFacts(), facts.telemetry
    peak, capacity = allocator.allocated_peak_bytes, allocator.device_bytes
    if telemetry is None or not peak or not capacity or peak < FULL * capacity:
        return None
    busy = telemetry.mean_value("busy_ratio", next(iter(telemetry.own_gpus), ""))
    if busy is None:
        return None
    idle = min(1.0 - busy, facts.bucket_share("unknown") + facts.bucket_share("host"))
    if idle < LEAST_EXPOSED:
        return None
    share, high = peak / capacity, idle * DOUBLED
    return Proof(
        headline=f"Device memory is {share:.0%} full, so the batch cannot grow, while the GPU is "
        f"idle {1.0 - busy:.0%} of the time",
        predicted=from_gains((0.0, 0.0, high), METHOD),
        evidence=(
            make_evidence(PEAK, share, "ratio", source="torch.cuda.memory_stats"),
            make_evidence("time without any kernel", 1.0 - busy, "ratio", source="NVML"),
        ),
        confidence=0.4,
        facts=_find_recomputable(facts),
        bucket="unknown" if facts.bucket_share("unknown") >= high else None,
    )
