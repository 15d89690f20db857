"""Interprets the stack samples of a watched process: what ran between its recorded calls.

Samples become Python events that last until the next sample; those inside the framework's modules
count as operators, which on a CPU is the work itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.kept_losses import find_kept_losses
from whyidle.analysis.sampling.gil_waits import (
    SampledPython,
    find_python,
    find_taken_lock,
    subtract_wakeup,
)
from whyidle.analysis.sampling.sample_classification import (
    classify_samples,
    is_single_process,
    runs_operators_alone,
)
from whyidle.analysis.sampling.sample_weighting import (
    PHASES,
    date_samples,
    make_looks,
    weigh_samples,
)
from whyidle.analysis.sampling.stack_frames import StackFrames
from whyidle.analysis.sampling.startup_and_tail import find_surroundings
from whyidle.analysis.sampling.thread_idleness import find_idle
from whyidle.analysis.sampling.worker_samples import interpret_workers
from whyidle.model.process_facts import LifePhases
from whyidle.model.roles import Role
from whyidle.model.timeline import Detail, HostEvents, HostKind, Timeline

GROWN: Final = 1.05
"""memory that ends above this many times what it began with is looked into"""
BLOCKED: Final = "whyidle::blocked"
LOCKED: Final = "whyidle::locked"
UNSEEN: Final = "whyidle::python"
"""Python of which no sample tells the line"""
_MEETING = (Role.COLLECTIVE_FLIGHT, Role.COLLECTIVE_WAIT, Role.BATCH_FROM_WORKERS)
"""in these a thread sleeps until the other ranks have come, or a worker's batch"""


def interpret_samples(timeline: Timeline) -> Timeline:
    """The same process with its stack samples turned into host events and looks; a timeline without
    stack samples as it is. What surrounds the training loop is cut off, but for its lengths."""
    if timeline.stack_samples is None:
        return timeline
    samples, stacks = timeline.stack_samples.rows, list(timeline.stack_samples.stacks)
    taken = find_taken_lock(samples)
    calls, names, threads = timeline.host, list(timeline.names), list(timeline.threads)
    ident = str(timeline.process.thread or 0)
    thread = threads.index(ident) if ident in threads else len(threads)
    found = find_surroundings(timeline, samples, stacks, thread)
    if found is not None:
        later = samples["time"] >= found.begin
        samples, taken = samples[later], taken[later]
        inside = calls.take_rows(calls.start >= found.begin)
        calls = inside.join(found.host_events(names, thread))
        threads += [ident][: thread + 1 - len(threads)]
    grows = _memory_grows(timeline.process.memory)
    samples = subtract_wakeup(samples, taken)
    python = find_python(samples, taken, stacks)
    told = replace(
        timeline,
        names=tuple(names),
        threads=tuple(threads),
        host=calls,
        phases=found.phases if found else LifePhases(),
        kept_losses=find_kept_losses(stacks, timeline.sources) if grows else (),
        loading=interpret_workers(timeline.loading),
        stack_samples=None,
    )
    return _add_samples(told, samples, stacks, python)


def _add_samples(
    timeline: Timeline, samples: NDArray[Any], stacks: list[str], found: SampledPython
) -> Timeline:
    """A process with host events and looks of its samples, which wait as they did for the lock."""
    calls, names = timeline.host, timeline.names
    phases = calls.take_rows(timeline.playing(calls, *PHASES))
    order = np.argsort(samples["time"], kind="stable")
    samples, found = samples[order], found.take_rows(order)
    read = samples["time"] + samples["waited_us"] * 1000
    shown = samples["stack"]
    samples = date_samples(phases, samples, len(stacks), found.python)
    borrowed = samples["stack"] != shown
    found = found.with_borrowed_stacks(borrowed)
    order = np.argsort(samples["time"], kind="stable")
    samples, read, stacks = samples[order], read[order], [*stacks, ""]
    found, own = found.take_rows(order), ~borrowed[order]
    leaf = [stack.split(";", 1)[0] or UNSEEN for stack in stacks]
    idle = find_idle(samples, read, calls.take_rows(timeline.playing(calls, *_MEETING)))
    kinds, blocked, stuck = classify_samples(
        samples,
        read,
        stacks,
        idle,
        found.python,
        alone=runs_operators_alone(timeline),
        single=is_single_process(timeline),
    )
    rows, start, end = weigh_samples(phases, samples)
    looks = make_looks(phases, samples, spoken=(rows, end - start), found=found, own=own)
    samples, kinds, blocked, stuck = samples[rows], kinds[rows], blocked[rows], stuck[rows]
    over = found.after[rows] & ~blocked & ~stuck
    frames = StackFrames([*names, *leaf])
    frames.add_samples(samples, start, end, stacks)
    sampled = samples["stack"] + len(names)
    sampled[blocked] = frames.number_of(BLOCKED)
    sampled[stuck] = frames.number_of(LOCKED)
    begin, until, name, thread = np.array(frames.events, dtype=np.int64).reshape(-1, 4).T
    shown = samples["stack"] + len(stacks) * over
    host = calls.join(
        HostEvents.of(begin, until, kind=HostKind.PYTHON, name=name, thread=thread),
        HostEvents.of(start, end, kind=kinds, name=sampled, thread=samples["thread"], detail=shown),
    )
    details = [Detail(stack=stack, after=after) for after in (False, True) for stack in stacks]
    return replace(
        timeline, names=tuple(frames.names), details=tuple(details), host=host, looks=looks
    )


def _memory_grows(reads: Sequence[tuple[int, int, int]]) -> bool:
    """Whether the process's memory ended clearly above where its steps began."""
    rows = [row for row in reads if row[1]]
    return len(rows) > 1 and rows[-1][2] > GROWN * rows[0][2]
