"""How much more of an input pipeline fits into the machine: workers, and batches that wait.

What the recording does not tell limits nothing: the trial of a value shows it then.
"""

from __future__ import annotations

import numpy as np

from whyidle.analysis.cpu_affinity import cores_for_loading
from whyidle.analysis.memory_pressure import AMPLE
from whyidle.analysis.step_scope import StepScope
from whyidle.analysis.telemetry_window import TelemetryWindow

WAITING = 32
"""workers that only wait, at most: an interpreter with PyTorch takes 0.2 GB, and what 32
requests at a time do not hide is better hidden by threads in the dataset, or by fewer requests"""


def most_workers(facts: StepScope, now: int, *, waits: bool) -> int | None:
    """The most loader workers of one rank that are worth trying, with ``now`` of them in the run.

    Cores limit only workers that compute. Memory does by what the job holds for each of its
    processes now, which counts pages that processes share several times and so is too much rather
    than too little; /dev/shm does by what finished batches fill of it now.
    """
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
    """How many workers that only wait can do so at once, with ``now`` of them in the run: as many
    as there is room for, ``WAITING`` at most."""
    room = most_workers(facts, now, waits=True)
    return WAITING if room is None else min(room, WAITING)


def most_waiting(facts: StepScope, depth: int) -> int | None:
    """The most batches that fit into /dev/shm, with ``depth`` of them in the run."""
    return _by_shm(facts.telemetry, depth) if facts.telemetry is not None else None


def _by_memory(outside: TelemetryWindow, ranks: int, now: int) -> int | None:
    left, own = _available_memory(outside), outside.highest_value("job_memory_resident_bytes")
    if left is None or not own:
        return None
    each = own / (ranks * (1 + now))
    return now + int(left / (ranks * each))


def _available_memory(outside: TelemetryWindow) -> float | None:
    """Memory that is to be had by the machine and the job's control group, a reserve left out."""
    whole = outside.mean_value("machine_memory_bytes")
    free = outside.values_read("machine_memory_available_bytes")
    if not whole or not len(free):
        return None
    bounds = [float(free.min()) - AMPLE * whole]
    limit, used = (
        outside.mean_value("group_memory_limit_bytes"),
        outside.highest_value("group_memory_bytes"),
    )
    if limit and used is not None:
        cached = outside.mean_value("group_memory_file_bytes") or 0.0
        bounds.append(limit * (1 - AMPLE) - used + cached)
    return max(min(bounds), 0.0)


def _by_shm(outside: TelemetryWindow, now: int) -> int | None:
    """In proportion to what ``now`` of them fill at most."""
    free, used = outside.values_read("shm_free_bytes"), outside.highest_value("shm_used_bytes")
    if not now or not len(free) or not used:
        return None
    return now + int(now * float(free.min()) / used)
