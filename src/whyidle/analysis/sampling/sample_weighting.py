"""For which time each stack sample speaks.

A sample inside a recorded call speaks for the rest of that call at most. One between calls speaks
for its own stretch between them, and for stretches without a sample that lie between calls of the
same two names: those are the same phase of other steps. So what happens between calls gets the
share of the time that it really had, even where steps are shorter than the time between two
samples. The call before alone does not tell the phase: after a batch comes a forward pass, of
training or, where the next batch follows it, of an evaluation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.sampling.gil_waits import SampledPython, is_random
from whyidle.model.roles import Role
from whyidle.model.timeline import HostEvents, StackSampleWeights

I64 = NDArray[np.int64]

LONGEST_NS = 500_000_000
"""a sample speaks for at most this long"""
PHASES = (
    Role.BATCH_REQUEST,
    Role.BACKWARD,
    Role.OPTIMIZER,
    Role.OPTIMIZER_OPERATORS,
    Role.COMPILER,
    Role.CHECKPOINT,
    Role.GC,
)
"""calls that bound the phases of a step"""


def weigh_samples(calls: HostEvents, samples: NDArray[Any]) -> tuple[I64, I64, I64]:
    """Samples (rows, some of them several times) with begin and end of what they speak for, ns;
    ``calls`` are those of ``PHASES``, here and below."""
    found = [(np.empty(0, np.int64),) * 3]
    for thread in np.unique(samples["thread"]):
        rows = np.flatnonzero(samples["thread"] == thread)
        begin, end, name = _merge_calls(calls.take_rows(calls.thread == thread))
        time = samples["time"][rows]
        row, start, stop = _weigh_thread(time, begin, end, _number_stretches(name))
        found.append((rows[row], start, stop))
    rows, start, stop = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.argsort(start, kind="stable")
    return rows[order], start[order], stop[order]


def date_samples(
    calls: HostEvents, samples: NDArray[Any], unknown: int, ran: NDArray[np.bool_]
) -> NDArray[Any]:
    """Samples with the stack of the moment that they speak for.

    A sample that had to wait for the interpreter's lock shows what ran when it got it. Where that
    is in another call, or between other calls, than where the lock was asked for, Python ran there,
    but not that line: such a sample says what the nearest one of the same phase says that found
    Python there, or nothing (the stack ``unknown``). To drop these would be to see too little
    of Python, for most of what runs shorter than the interpreter's switch interval (5 ms) is
    seen so only; to date them when the lock was had, too much of what lets go of it. A sample
    that found no Python (``ran``) is dated when it was taken.
    """
    moved = samples.copy()
    asked = samples["time"]
    got = asked + samples["waited_us"] * 1000
    phases = find_phases(calls, samples)
    for thread in np.unique(samples["thread"]):
        rows = np.flatnonzero(samples["thread"] == thread)
        begin, end, _ = _merge_calls(calls.take_rows(calls.thread == thread))
        edges = np.sort(np.concatenate([begin, end]))
        over = np.searchsorted(edges, asked[rows]) != np.searchsorted(edges, got[rows])
        held = ran[rows]
        late, told = rows[over & held], rows[~over & held]
        moved["stack"][late] = _borrow_stacks(samples, phases, late, told, unknown)
        crossed = rows[over & ~held]
        moved["time"][crossed], moved["waited_us"][crossed] = got[crossed], 0
    return moved


def _borrow_stacks(
    samples: NDArray[Any], phases: I64, late: I64, told: I64, unknown: int
) -> NDArray[np.int64]:
    """For each late sample the stack of the nearest one of its phase that is not."""
    found = np.full(len(late), unknown, np.int64)
    for phase in np.unique(phases[late]):
        donors, mine = told[phases[told] == phase], phases[late] == phase
        if len(donors):
            near = _find_nearest(samples["time"][donors], samples["time"][late[mine]])
            found[mine] = samples["stack"][donors[near]]
    return found


def _find_nearest(times: I64, moments: I64) -> I64:
    """Index into sorted times of the one nearest to each moment."""
    at = np.searchsorted(times, moments)
    left, right = np.maximum(at - 1, 0), np.minimum(at, len(times) - 1)
    nearer = np.abs(times[right] - moments) < np.abs(times[left] - moments)
    found: I64 = np.where(nearer, right, left)
    return found


def find_phases(calls: HostEvents, samples: NDArray[Any]) -> I64:
    """A number per sample that is the same for all inside calls of one name (odd), and for all
    between calls of the same two names (even)."""
    found = np.zeros(len(samples), np.int64)
    for thread in np.unique(samples["thread"]):
        rows = np.flatnonzero(samples["thread"] == thread)
        begin, end, name = _merge_calls(calls.take_rows(calls.thread == thread))
        time = samples["time"][rows]
        gap = np.searchsorted(begin, time, side="right")
        inside = (gap > 0) & (time < np.append(0, end)[gap])
        called = np.append(-1, name)[gap] + 1
        found[rows] = np.where(inside, 2 * called + 1, 2 * _number_stretches(name)[gap])
    return found


def _number_stretches(name: I64) -> I64:
    """A number for each stretch between calls, told by the names of those it lies between; before
    the first and after the last call of all is nothing."""
    before, after = np.append(-1, name), np.append(name, -1)
    return (before + 1) * (int(name.max(initial=0)) + 2) + after + 1


def make_looks(
    calls: HostEvents,
    samples: NDArray[Any],
    *,
    spoken: tuple[I64, I64],
    found: SampledPython,
    own: NDArray[np.bool_],
) -> StackSampleWeights:
    """Samples as looks at random moments: not the stacks that were noted at calls. ``spoken`` are
    rows of them, and for how long each of these speaks, ns; ``own`` ones say what they themselves
    saw."""
    phases, weight = find_phases(calls, samples), np.zeros(len(samples))
    np.add.at(weight, *spoken)
    random = is_random(samples)
    return StackSampleWeights(
        samples["time"][random],
        phases[random],
        weight[random],
        (found.unsure & (phases % 2 == 0))[random],
        own[random],
    )


def _merge_calls(calls: HostEvents) -> tuple[I64, I64, I64]:
    """Disjoint calls: begin, end, and the name of the one that ends each."""
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
    time: I64, gap: I64, inside: NDArray[np.bool_], stretches: tuple[I64, I64], phase: I64
) -> tuple[I64, I64, I64]:
    """Stretches without a sample, each given to the nearest sample of the same phase."""
    opens, closes = stretches
    seen = np.zeros(len(opens), dtype=bool)
    seen[gap[~inside]] = True
    empty = np.flatnonzero(~seen & (closes > opens) & (closes - opens < LONGEST_NS))
    rows = np.full(len(empty), -1, np.int64)
    for each in np.unique(phase[empty]):
        donors = np.flatnonzero(~inside & (phase[gap] == each))
        wanted = phase[empty] == each
        if len(donors):
            rows[wanted] = donors[_find_nearest(time[donors], opens[empty[wanted]])]
    told = rows >= 0
    return rows[told], opens[empty[told]], closes[empty[told]]
