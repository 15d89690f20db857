"""The recorded step of several ranks with one thing changed, by the model of ``rank_scaling``."""

from __future__ import annotations

from typing import Final

import numpy as np

from whyidle.analysis.arrays import F64, I64
from whyidle.analysis.facts import Facts
from whyidle.analysis.partition.idle_gaps import pick_rows
from whyidle.analysis.ranks.job import Job
from whyidle.analysis.ranks.rank_scaling import exchange_end
from whyidle.model.documents.rank_tables import WhatIf

LEAST_STEPS: Final = 3


def find_what_ifs(job: Job) -> list[WhatIf]:
    """Predict the step without the rank that the others wait for, and with a link twice as fast;
    nothing where collectives of all ranks do not match in ``LEAST_STEPS`` steps.

    A rank's own work is its step without what holds it up in collectives. A collective is ready
    when all ranks have done the device work that they launched before it.
    """
    meetings, step = job.meetings, job.meetings.step
    alike = meetings.present.all(axis=1) & meetings.leave_together & (step >= 0).all(axis=1)
    rows = np.flatnonzero(alike & (step == step[:, :1]).all(axis=1))
    rows = rows[np.argsort(meetings.arrival[rows].max(axis=1), kind="stable")]
    numbers, counts = np.unique(step[rows, 0], return_counts=True)
    if len(job.ranks) < 2 or len(numbers) < LEAST_STEPS or np.ptp(counts):
        return []
    table = rows[np.argsort(step[rows, 0], kind="stable")].reshape(len(numbers), -1)
    worked = [_work_until(facts, meetings.start[table, i] - meetings.offset[i], numbers)
              for i, facts in enumerate(job.ranks)]  # fmt: skip
    ready, own = (np.stack(parts) for parts in zip(*worked, strict=True))
    times = np.median(meetings.transfer_ns[table], axis=0) / 1e9

    def simulate(ranks: list[int], speed: float = 1.0) -> float:
        ends = exchange_end(ready[ranks].max(axis=0), times / speed)
        return float(np.maximum(own[ranks].max(axis=0), ends).mean())

    everyone, late = list(range(len(job.ranks))), job.imbalance.late_rank
    measured = float(np.mean([facts.step_s for facts in job.ranks]))
    base = simulate(everyone)
    changed = {"with a link twice as fast": simulate(everyone, 2.0)}
    if late is not None:
        others = [index for index in everyone if index != late.index]
        changed = {f"without rank {late.rank}": simulate(others), **changed}
    return [WhatIf(name=name, step_s=measured - base + s) for name, s in changed.items()]


def _work_until(facts: Facts, start: F64, numbers: I64) -> tuple[F64, F64]:
    """The own work of each step before these starts, and all of it, s."""
    begin, end = facts.steps.start[numbers], facts.steps.end[numbers]
    first = np.broadcast_to(begin[:, None], start.shape)
    until = np.maximum(_ready(facts, np.rint(start).astype(np.int64)), first)
    held = facts.held_up.length_inside(first.ravel(), until.ravel()).reshape(start.shape)
    own = end - begin - facts.held_up.length_inside(begin, end)
    return (until - first - held) / 1e9, own / 1e9


def _ready(facts: Facts, start: I64) -> I64:
    """When the work that was launched before these collectives had ended, at most their start: a
    link that is busy lets them start later."""
    device, call = facts.device, facts.launches.call
    launched = pick_rows(facts.timeline.host.start, call, -1)
    exchange = np.flatnonzero((facts.group == "communication") & (call >= 0))
    work = np.flatnonzero((facts.group != "communication") & (call >= 0))
    if not len(exchange) or not len(work):  # a CPU: the exchange waits in the training thread
        return start
    work = work[np.argsort(launched[work], kind="stable")]
    ends = np.maximum.accumulate(device.end[work])
    exchange = exchange[np.argsort(device.start[exchange], kind="stable")]
    found = np.searchsorted(device.start[exchange], start).clip(0, len(exchange) - 1)
    before = np.searchsorted(launched[work], launched[exchange[found]]) - 1
    return np.where(before >= 0, np.minimum(ends[before], start), start)
