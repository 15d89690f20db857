"""Room of the machine for loader workers and waiting batches. Unknown resources set no limit; the
trial of a value then shows it."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.host.cpu_affinity import cores_for_loading
from whyidle.analysis.host.telemetry_window import TelemetryWindow
from whyidle.analysis.memory.memory_pressure import AMPLE
from whyidle.analysis.steps.step_scope import StepScope

WAITING = 32
"""most workers that only wait: each takes 0.2 GB, and more concurrency needs other means"""


def most_workers(facts: StepScope, now: int, *, waits: bool) -> int | None:
    """Return the most loader workers of one rank worth trying, with ``now`` in the run. Cores limit
    only workers that compute, memory all by the job's use per process (with shared pages, so rather
    too high), and /dev/shm by the size of finished batches."""
    bounds: list[int | None] = []
    cores = cores_for_loading(facts)
    if cores is not None and not waits:
        bounds.append(max(1, int(np.ceil(cores))))
    if facts.telemetry is not None:
        ranks = max(facts.timeline.world_size or 1, 1)
        bounds.append(_by_memory(facts.telemetry, ranks, now))
        bounds.append(_by_shm(facts.telemetry, now))
    known = [bound for bound in bounds if bound is not None]
    return max(min(known), now, 1) if known else None


def waiting_workers(facts: StepScope, now: int) -> int:
    """Return how many workers that only wait fit, with ``now`` in the run."""
    room = most_workers(facts, now, waits=True)
    return WAITING if room is None else min(room, WAITING)


def most_waiting(facts: StepScope, depth: int) -> int | None:
    """Return the most batches that fit into /dev/shm, with ``depth`` of them in the run."""
    return _by_shm(facts.telemetry, depth) if facts.telemetry is not None else None


def _by_memory(outside: TelemetryWindow, ranks: int, now: int) -> int | None:
    available, own = available_memory(outside), outside.highest_value("job_memory_resident_bytes")
    if available is None or not own:
        return None
    per_process = own / (ranks * (1 + now))
    return now + int(available / (ranks * per_process))


def available_memory(outside: TelemetryWindow) -> float | None:
    """Return the bytes that processes may still take; None where not known."""
    total = outside.mean_value("machine_memory_bytes")
    free = outside.values_read("machine_memory_available_bytes")
    if not total or not len(free):
        return None
    bounds = [float(free.min()) - AMPLE * total]
    limit = outside.mean_value("group_memory_limit_bytes")
    used = outside.highest_value("group_memory_bytes")
    if limit and used is not None:
        cached = outside.mean_value("group_memory_file_bytes") or 0.0
        bounds.append(limit * (1 - AMPLE) - used + cached)
    return max(min(bounds), 0.0)


def _by_shm(outside: TelemetryWindow, now: int) -> int | None:
    free, used = outside.values_read("shm_free_bytes"), outside.highest_value("shm_used_bytes")
    if not now or not len(free) or not used:
        return None
    return now + int(now * float(free.min()) / used)
