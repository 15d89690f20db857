"""The time that each stack sample represents. A sample inside a recorded call represents at most
the rest of that call. One between calls represents its own interval between them, and intervals
without a sample between calls of the same two names: the same phase of other steps. So the time
between calls is attributed in proportion, even if steps are shorter than the sampling interval.
Intervals of about the same length are preferred: what is done in every twentieth step makes an
interval long, and most samples fall into it, but the short ones are not spent on it. The
call before is not sufficient: after a batch comes a forward pass of training or, if the next batch
follows, of an evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.arrays import I64, Mask
from whyidle.analysis.sampling.gil_waits import SampledPython, is_random
from whyidle.model.roles import Role
from whyidle.model.timeline import HostEvents, StackSampleWeights

LONGEST_NS = 500_000_000
"""longest time that a sample represents"""
PHASES = (
    Role.BATCH_REQUEST,
    Role.BACKWARD,
    Role.OPTIMIZER,
    Role.OPTIMIZER_OPERATORS,
    Role.COMPILER,
    Role.CHECKPOINT,
    Role.GC,
    Role.DEVICE_READ,
)
"""calls that bound the phases of a step"""


def weigh_samples(calls: HostEvents, samples: NDArray[Any]) -> tuple[I64, I64, I64]:
    """Return samples (rows, some repeated) with begin and end of their time, ns. ``calls`` are of
    ``PHASES``."""
    parts = [(np.empty(0, np.int64),) * 3]
    for thread in np.unique(samples["thread"]):
        rows = np.flatnonzero(samples["thread"] == thread)
        begin, end, name = _merge_calls(calls.take_rows(calls.thread == thread))
        time = samples["time"][rows]
        row, start, stop = _weigh_thread(time, begin, end, _number_stretches(name))
        parts.append((rows[row], start, stop))
    rows, start, stop = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(start, kind="stable")
    return rows[order], start[order], stop[order]


def date_samples(calls: HostEvents, samples: NDArray[Any], unknown: int, ran: Mask) -> NDArray[Any]:
    """Return samples with the stack of the moment that they represent.

    A sample that waited for the GIL while a call began or ended shows a later line: it takes the
    stack of the nearest sample of its phase with Python, or ``unknown``. Dropping it would miss
    most Python shorter than the switch interval (5 ms), and dating it by the end of the wait would
    count what releases the GIL. A sample without Python (``ran``) is dated when it was taken.
    """
    moved = samples.copy()
    requested = samples["time"]
    acquired = requested + samples["waited_us"] * 1000
    phases = find_phases(calls, samples)
    for thread in np.unique(samples["thread"]):
        rows = np.flatnonzero(samples["thread"] == thread)
        begin, end, _ = _merge_calls(calls.take_rows(calls.thread == thread))
        edges = np.sort(np.concatenate([begin, end]))
        crosses = np.searchsorted(edges, requested[rows]) != np.searchsorted(edges, acquired[rows])
        with_python = ran[rows]
        late, timely = rows[crosses & with_python], rows[~crosses & with_python]
        moved["stack"][late] = _borrow_stacks(samples, phases, late, timely, unknown)
        crossed = rows[crosses & ~with_python]
        moved["time"][crossed], moved["waited_us"][crossed] = acquired[crossed], 0
    return moved


def _borrow_stacks(samples: NDArray[Any], phases: I64, late: I64, timely: I64, unknown: int) -> I64:
    stacks = np.full(len(late), unknown, np.int64)
    for phase in np.unique(phases[late]):
        donors, same = timely[phases[timely] == phase], phases[late] == phase
        if len(donors):
            near = find_nearest(samples["time"][donors], samples["time"][late[same]])
            stacks[same] = samples["stack"][donors[near]]
    return stacks


def find_nearest(times: I64, moments: I64) -> I64:
    """Return the index of the time nearest to each moment; ``times`` ascend, and are not empty."""
    index = np.searchsorted(times, moments)
    left, right = np.maximum(index - 1, 0), np.minimum(index, len(times) - 1)
    nearest: I64 = np.where(
        np.abs(times[right] - moments) < np.abs(times[left] - moments), right, left
    )
    return nearest


def find_phases(calls: HostEvents, samples: NDArray[Any]) -> I64:
    """Return a number per sample: odd per name of the call around, even per pair of calls."""
    phases = np.zeros(len(samples), np.int64)
    for thread in np.unique(samples["thread"]):
        rows = np.flatnonzero(samples["thread"] == thread)
        begin, end, name = _merge_calls(calls.take_rows(calls.thread == thread))
        time = samples["time"][rows]
        gap = np.searchsorted(begin, time, side="right")
        inside = (gap > 0) & (time < np.append(0, end)[gap])
        called = np.append(-1, name)[gap] + 1
        phases[rows] = np.where(inside, 2 * called + 1, 2 * _number_stretches(name)[gap])
    return phases


def _number_stretches(name: I64) -> I64:
    """A number for each interval between calls, by the names around it."""
    before, after = np.append(-1, name), np.append(name, -1)
    return (before + 1) * (int(name.max(initial=0)) + 2) + after + 1


def make_looks(
    calls: HostEvents,
    samples: NDArray[Any],
    *,
    spoken: tuple[I64, I64],
    found: SampledPython,
    own: Mask,
) -> StackSampleWeights:
    """Return the weights of samples at random moments. ``spoken`` are rows and represented times,
    ns; ``own`` marks samples with a stack of their own."""
    phases, weight = find_phases(calls, samples), np.zeros(len(samples))
    np.add.at(weight, *spoken)
    random = is_random(samples)
    unsure = found.unsure & (phases % 2 == 0)
    columns: tuple[Any, ...] = (samples["time"], phases, weight, unsure, own)
    return StackSampleWeights(*(column[random] for column in columns))


def _merge_calls(calls: HostEvents) -> tuple[I64, I64, I64]:
    if not len(calls):
        return (np.empty(0, np.int64),) * 3
    calls = calls.take_rows(np.lexsort((calls.end, calls.start)))
    start, reach = calls.start, np.maximum.accumulate(calls.end)
    first = np.append(True, start[1:] > reach[:-1])
    group = np.cumsum(first) - 1
    last = np.zeros(group[-1] + 1, np.int64)
    last[group] = np.arange(len(calls))
    return start[first], reach[last], calls.name[first].astype(np.int64)


def _weigh_thread(time: I64, begin: I64, end: I64, phase: I64) -> tuple[I64, I64, I64]:
    gap = np.searchsorted(begin, time, side="right")  # stretch ``gap`` ends where call ``gap`` does
    inside = (gap > 0) & (time < np.append(0, end)[gap])
    following = np.append(time[1:], time[-1:] + LONGEST_NS)
    opens = np.append(time[:1], end)  # begin and end of every stretch between calls
    closes = np.append(begin, np.maximum(time[-1:], end[-1:] if len(end) else time[-1:]))
    same = np.append(False, (gap[1:] == gap[:-1]) & ~inside[1:] & ~inside[:-1])
    start = np.where(inside | same, time, np.minimum(opens[gap], time))
    stop = np.where(
        inside, np.append(0, end)[gap], np.where(np.append(same[1:], False), following, closes[gap])
    )
    start = np.maximum(start, time - LONGEST_NS)
    stop = np.clip(np.minimum(stop, np.maximum(following, start)), time, time + LONGEST_NS)
    stop = np.where(
        ~inside & ~np.append(same[1:], False), np.minimum(closes[gap], time + LONGEST_NS), stop
    )
    row, low, high = _weigh_unsampled(time, gap, inside, (opens, closes), phase)
    return (
        np.concatenate([np.arange(len(time)), row]),
        np.concatenate([start, low]),
        np.concatenate([np.maximum(stop, start), high]),
    )


def _weigh_unsampled(
    time: I64, gap: I64, inside: Mask, stretches: tuple[I64, I64], phase: I64
) -> tuple[I64, I64, I64]:
    opens, closes = stretches
    sampled = np.zeros(len(opens), dtype=bool)
    sampled[gap[~inside]] = True
    empty = np.flatnonzero(~sampled & (closes > opens) & (closes - opens < LONGEST_NS))
    rows = np.full(len(empty), -1, np.int64)
    size = np.round(np.log2(np.maximum(closes - opens, 1)))
    for number, length in np.unique(np.stack([phase[empty], size[empty]]), axis=1).T:
        donors = np.flatnonzero(~inside & (phase[gap] == number))
        alike = donors[np.abs(size[gap[donors]] - length) <= 1]
        donors = alike if len(alike) else donors
        same = (phase[empty] == number) & (size[empty] == length)
        if len(donors):
            rows[same] = donors[find_nearest(time[donors], opens[empty[same]])]
    known = rows >= 0
    return rows[known], opens[empty[known]], closes[empty[known]]
