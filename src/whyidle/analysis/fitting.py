"""How much more of an input pipeline fits into the machine: workers, and batches that wait.

What the recording does not tell limits nothing: the trial of a value shows it then.
"""

from __future__ import annotations

import numpy as np

from whyidle.analysis.binding import spendable
from whyidle.analysis.outside import Outside
from whyidle.analysis.pressure import AMPLE
from whyidle.analysis.scoped import Scoped

WAITING = 32
"""workers that only wait, at most: an interpreter with PyTorch takes 0.2 GB, and what 32
requests at a time do not hide is better hidden by threads in the dataset, or by fewer requests"""


def most_workers(facts: Scoped, now: int, *, waits: bool) -> int | None:
    """The most loader workers of one rank that are worth trying, with ``now`` of them in the run.

    Cores limit only workers that compute. Memory does by what the job holds for each of its
    processes now, which counts pages that processes share several times and so is too much rather
    than too little; /dev/shm does by what finished batches fill of it now.
    """
    bounds: list[int | None] = []
    cores = spendable(facts)
    if cores is not None and not waits:
        bounds.append(max(1, int(np.ceil(cores))))
    if facts.outside is not None:
        ranks = max(facts.timeline.world_size or 1, 1)
        bounds.append(_by_memory(facts.outside, ranks, now))
        bounds.append(_by_shm(facts.outside, now))
    known = [bound for bound in bounds if bound is not None]
    return max(min(known), now, 1) if known else None


def waiting_workers(facts: Scoped, now: int) -> int:
    """How many workers that only wait can do so at once, with ``now`` of them in the run: as many
    as there is room for, ``WAITING`` at most."""
    room = most_workers(facts, now, waits=True)
    return WAITING if room is None else min(room, WAITING)


def most_waiting(facts: Scoped, depth: int) -> int | None:
    """The most batches that fit into /dev/shm, with ``depth`` of them in the run."""
    return _by_shm(facts.outside, depth) if facts.outside is not None else None


def _by_memory(outside: Outside, ranks: int, now: int) -> int | None:
    left, own = _left(outside), outside.most("job_memory_resident_bytes")
    if left is None or not own:
        return None
    each = own / (ranks * (1 + now))
    return now + int(left / (ranks * each))


def _left(outside: Outside) -> float | None:
    """Memory that is to be had by the machine and the job's control group, a reserve left out."""
    whole = outside.mean("machine_memory_bytes")
    free = outside.reads("machine_memory_available_bytes")
    if not whole or not len(free):
        return None
    bounds = [float(free.min()) - AMPLE * whole]
    limit, used = outside.mean("group_memory_limit_bytes"), outside.most("group_memory_bytes")
    if limit and used is not None:
        cached = outside.mean("group_memory_file_bytes") or 0.0
        bounds.append(limit * (1 - AMPLE) - used + cached)
    return max(min(bounds), 0.0)


def _by_shm(outside: Outside, now: int) -> int | None:
    """In proportion to what ``now`` of them fill at most."""
    free, used = outside.reads("shm_free_bytes"), outside.most("shm_used_bytes")
    if not now or not len(free) or not used:
        return None
    return now + int(now * float(free.min()) / used)
