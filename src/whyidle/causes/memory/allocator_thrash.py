"""Device memory is allocated and freed in every step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import union_of
from whyidle.analysis.steps.forecast import from_gains
from whyidle.model.cause import HARMLESS, Proof, cause
from whyidle.model.diagnosis import Evidence
from whyidle.model.process_facts import AllocatorFacts
from whyidle.model.proof_facts import MemoryFacts
from whyidle.model.roles import Role

PER_STEP = 0.5
"""least device allocations per steady step; a warm cache needs none"""
RETRIED = 0.1
"""least cache flushes per step; normal is zero, and each stops the device"""
REMAINING = (0.3, 0.0, 0.0)
"""share of the allocator's time that stays (low, expected, high gain)"""


@cause(
    "Device memory is allocated and freed in every step",
    bucket="interruption",
    needs=("device_events", "runtime_calls", "steady_steps"),
    watched=("gpu_telemetry", "own_allocator", "steady_steps"),
)
def allocator_thrash(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    PyTorch caches device memory, so steady steps need no allocation calls. Here they call
    ``cudaMalloc`` and ``cudaFree``, because the script calls ``empty_cache()``, or because memory
    is so full or fragmented that PyTorch flushes its cache.

    Why it costs
    ------------
    Each ``cudaFree`` waits for the whole device, and each ``cudaMalloc`` takes up to milliseconds.

    How it is detected
    ------------------
    Trace: steady steps make at least one allocation call per two steps. The prediction replays the
    steps without these calls and their synchronisations. Watched job: the allocator counts at least
    one cache flush per ten steps. The gain is at most the time in which NVML reports no kernel.

    What looks alike
    ----------------
    Allocations in the first steps are warm-up. ``cudaMallocAsync`` and CUDA graph pools do not wait
    for the device. ``cudaHostAlloc`` allocates pinned host memory and does not count.

    What to do
    ----------
    Remove ``empty_cache()`` and ``gc.collect()`` from the loop, or call them every few hundred
    steps. Set ``PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True``. Group batches by length.

    References
    ----------
    PyTorch, "CUDA semantics, memory management"; huggingface/peft#2894 (108 to 45 s without the
    calls, peak memory 19.3 to 23.5 GB).
    """
    if not len(facts.device):
        return _prove_from_facts(facts)
    calls = facts.rows_of(Role.DEVICE_ALLOCATION)
    if facts.cold_start or len(calls) < PER_STEP * facts.step_count:
        return None
    host = facts.timeline.host
    spent = union_of(host.start[calls], host.end[calls])
    rows = np.union1d(calls, facts.waits.allocator_waits)
    gains = _allocator_gains(facts, rows)
    if gains[2] < HARMLESS:
        return None
    lost = max(facts.share_of(facts.time_of("allocator") & spent), gains[0])
    releases, run = _find_cache_releases(facts)
    emptied, per_step = bool(len(releases)), len(calls) / facts.step_count
    place = (
        run.places.place_of(int(releases[0])) if emptied else facts.places.place_of(int(calls[0]))
    )
    return Proof(
        headline=f"{per_step:.3g} calls per step allocate or free device memory"
        + (", because the script empties the cache" if emptied else ""),
        low=gains[0],
        high=max(lost, gains[1]),
        predicted=from_gains(gains, "recorded steps replayed without the calls"),
        evidence=_allocator_evidence(facts, len(calls), len(releases) / run.step_count, lost),
        confidence=0.9,
        where=(place,) if place else (),
        facts=MemoryFacts(emptied=emptied),
    )


def _find_cache_releases(facts: Facts) -> tuple[NDArray[np.int64], Facts]:
    """Rows of frequent calls that empty the cache, and the facts that hold these rows. A burst has
    operators but no Python; the recording of its run has these calls."""
    rows, run = facts.rows_of(Role.CACHE_RELEASE), facts
    if not len(rows) and facts.live is not None:
        rows, run = facts.live.rows_of(Role.CACHE_RELEASE), facts.live
    frequent = len(rows) >= RETRIED * run.step_count  # one per epoch explains no step
    return rows if frequent else rows[:0], run


def _allocator_gains(facts: Facts, rows: NDArray[np.int64]) -> tuple[float, float, float]:
    host, replay = facts.timeline.host, facts.replay
    spent = union_of(host.start[rows], host.end[rows])
    gains = []
    for part in REMAINING:
        length = replay.replayed_length(replay.reduce_host_time(spent, 1.0 - part), without=rows)
        gains.append(max(0.0, 1.0 - length / replay.base_ns))
    low, middle, high = sorted(gains)
    return low * 0.9, middle, min(0.99, high + 0.05 * (1.0 - high))


def _allocator_evidence(
    facts: Facts, calls: int, releases: float, lost: float
) -> tuple[Evidence, ...]:
    listed = (
        ("device allocation calls per step", calls / facts.step_count, None, calls),
        ("calls that empty the cache, per step", releases, None, facts.step_count),
        ("device idle in the allocator, share of step", lost, "ratio", calls),
    )  # fmt: skip
    return tuple(
        make_evidence(name, value, unit, samples=samples, source="runtime", window="steady steps")
        for name, value, unit, samples in listed
    )


def _prove_from_facts(facts: Facts) -> Proof | None:
    """Prove cache flushes of a watched job from its allocator's counters. The time that they take
    is not recorded; it is at most the time without kernels according to NVML."""
    allocator, telemetry = facts.timeline.process.allocator or AllocatorFacts(), facts.telemetry
    reads = np.array(allocator.reads, dtype=np.float64).reshape(-1, 3)  # time, step, retries
    if telemetry is None or len(reads) < 2:
        return None
    busy = telemetry.mean_value("busy_ratio", next(iter(telemetry.own_gpus), ""))
    inside = reads[(reads[:, 0] >= telemetry.low_ns) & (reads[:, 0] <= telemetry.high_ns)]
    if busy is None or len(inside) < 2 or inside[-1, 1] <= inside[0, 1]:
        return None
    steps, retries = (inside[-1] - inside[0])[1:]
    per_step = float(retries / steps)
    high = float(min(1.0 - busy, facts.bucket_share("unknown"))) * min(1.0, per_step)
    if per_step < RETRIED or high < HARMLESS:
        return None
    source = "torch.cuda.memory_stats"
    return Proof(
        headline=f"The allocator runs out of memory and flushes its cache {per_step:.2g} times "
        "per step",
        predicted=from_gains((0.0, high / 2, high), "at most the time without any kernel"),
        evidence=(
            make_evidence("cache flushes", float(retries), None, samples=int(steps), source=source),
            make_evidence("time without any kernel", 1.0 - busy, "ratio", source="NVML"),
        ),
        confidence=0.6,
        bucket="unknown",
        facts=MemoryFacts(emptied=False),
    )
