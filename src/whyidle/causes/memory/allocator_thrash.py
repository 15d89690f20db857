"""Device memory is allocated and freed in every step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.intervals import union_of
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.process_facts import AllocatorFacts
from whyidle.model.proof_facts import MemoryFacts
from whyidle.model.roles import Role

LEAST_GAIN = 0.005
"""share of the step below which the allocator is not worth a word"""
PER_STEP = 0.5
"""device allocations per steady step; once the cache is warm there are none"""
RETRIED = 0.1
"""flushes of the cache per step; none is normal, each stops the device"""
KEPT = (0.3, 0.0, 0.0)
"""what stays of the time in the allocator (careful, expected, hopeful)"""


@cause(
    "Device memory is allocated and freed in every step",
    bucket="interruption",
    needs=("device_events", "runtime_calls", "steady_steps"),
    watched=("gpu_telemetry", "own_allocator", "steady_steps"),
)
def allocator_thrash(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    PyTorch keeps device memory in a cache, so that a warm step asks the driver for none. Here
    steady steps call ``cudaMalloc`` and ``cudaFree``: somebody empties the cache each step
    (``empty_cache()``), or memory is so full or fragmented that the cache must be flushed.

    Why it costs
    ------------
    Every ``cudaFree`` waits for the whole device and every ``cudaMalloc`` takes up to
    milliseconds. The GPU idles during them and while the queue refills.

    How it is detected
    ------------------
    Allocation calls in steady steps, at least one in two steps, and the device idle during them.
    The gain is the replay of the recorded steps without these calls and the synchronisations
    beside them.

    What looks alike
    ----------------
    Allocations of the first steps are warm-up. ``cudaMallocAsync`` and pools of CUDA graphs do not
    wait for the device. Allocating pinned host memory shows as ``cudaHostAlloc`` and is not
    counted here.

    What to do
    ----------
    Drop ``empty_cache()`` and ``gc.collect()`` from the loop, or call them every few hundred
    steps; ``PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True``; bucket the lengths of batches.

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
    if gains[2] < LEAST_GAIN:
        return None
    lost = max(facts.share_of(facts.time_of("allocator") & spent), gains[0])
    emptied, seen = _find_cache_emptying(facts)
    per_step = len(calls) / facts.step_count
    return Proof(
        headline=f"{per_step:.3g} calls per step allocate or free device memory"
        + (", because the cache is emptied" if len(emptied) else ""),
        low=gains[0],
        high=max(lost, gains[1]),
        predicted=from_gains(gains, "recorded steps replayed without the calls"),
        evidence=_allocator_evidence(facts, calls, len(emptied) / seen.step_count, lost),
        confidence=0.9,
        where=tuple(place for place in [_thrash_place(facts, calls, emptied, seen)] if place),
        facts=MemoryFacts(emptied=bool(len(emptied))),
    )


def _find_cache_emptying(facts: Facts) -> tuple[NDArray[np.int64], Facts]:
    """Calls that empty the cache now and again, and whose rows they are: a burst holds operators
    and no Python, but of its run the probe told when it was called."""
    found, seen = facts.rows_of(Role.CACHE_RELEASE), facts
    if not len(found) and facts.live is not None:
        found, seen = facts.live.rows_of(Role.CACHE_RELEASE), facts.live
    often = len(found) >= RETRIED * seen.step_count  # once an epoch explains no step
    return found if often else found[:0], seen


def _thrash_place(
    facts: Facts, calls: NDArray[np.int64], emptied: NDArray[np.int64], seen: Facts
) -> Place | None:
    """Where the cache is emptied, else where memory is asked for."""
    return (
        seen.places.place_of(int(emptied[0]))
        if len(emptied)
        else facts.places.place_of(int(calls[0]))
    )


def _allocator_gains(facts: Facts, rows: NDArray[np.int64]) -> tuple[float, float, float]:
    host, replay = facts.timeline.host, facts.replay
    spent = union_of(host.start[rows], host.end[rows])
    gains = []
    for kept in KEPT:
        then = replay.replayed_length(replay.reduce_host_time(spent, 1.0 - kept), without=rows)
        gains.append(max(0.0, 1.0 - then / replay.base_ns))
    low, middle, high = sorted(gains)
    return low * 0.9, middle, min(0.99, high + 0.05 * (1.0 - high))


def _allocator_evidence(
    facts: Facts, calls: NDArray[np.int64], emptied: float, lost: float
) -> tuple[Evidence, ...]:
    listed = (
        ("device allocation calls per step", len(calls) / facts.step_count, None, len(calls)),
        ("calls that empty the cache, per step", emptied, None, facts.step_count),
        ("device idle in the allocator, share of step", lost, "ratio", len(calls)),
    )  # fmt: skip
    return tuple(
        Evidence(
            quantity=quantity, value=value, unit=unit, window="steady steps", samples=samples,
            source="runtime",
        )
        for quantity, value, unit, samples in listed
    )  # fmt: skip


def _prove_from_facts(facts: Facts) -> Proof | None:
    """A watched job: how often its allocator had to flush the cache and ask again, per step. What
    that took is not told; it is at most the time in which NVML saw no kernel."""
    told, outside = facts.timeline.process.allocator or AllocatorFacts(), facts.telemetry
    reads = np.array(told.reads, dtype=np.float64).reshape(-1, 3)  # time, step, retries
    gpu = outside.own_gpus[0] if outside and outside.own_gpus else ""
    busy = outside.mean_value("busy_ratio", gpu) if outside else None
    if len(reads) < 2 or busy is None or outside is None:
        return None
    inside = reads[(reads[:, 0] >= outside.low_ns) & (reads[:, 0] <= outside.high_ns)]
    if len(inside) < 2 or inside[-1, 1] <= inside[0, 1]:
        return None
    steps, retries = (inside[-1] - inside[0])[1:]
    each = float(retries / steps)
    high = float(min(1.0 - busy, facts.bucket_share("unknown"))) * min(1.0, each)
    if each < RETRIED or high < LEAST_GAIN:
        return None
    return Proof(
        headline=f"The allocator is out of memory {each:.2g} times per step, and flushes its cache",
        low=0.0,
        high=high,
        predicted=from_gains((0.0, high / 2, high), "at most the time without any kernel"),
        evidence=(
            make_evidence(
                "flushes of the cache",
                float(retries),
                None,
                samples=int(steps),
                source="torch.cuda.memory_stats",
            ),
            make_evidence("time without any kernel", 1.0 - busy, "ratio", source="NVML"),
        ),
        confidence=0.6,
        bucket="unknown",
        facts=MemoryFacts(emptied=False),
    )
