"""Interpretation of the stack samples of a watched process: what ran between its recorded calls.
Samples become Python events that last until the next sample; those inside the framework's modules
count as operators, which on a CPU are the work itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.memory.retained_losses import find_kept_losses
from whyidle.analysis.sampling.evaluation_calls import with_evaluation_calls
from whyidle.analysis.sampling.gil_waits import (
    SampledPython,
    find_python,
    find_taken_lock,
    subtract_wakeup,
)
from whyidle.analysis.sampling.sample_classification import classify_samples
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
"""growth of the process's memory from which kept losses are searched for"""
BLOCKED: Final = "whyidle::blocked"
LOCKED: Final = "whyidle::locked"
UNSEEN: Final = "whyidle::python"
"""Python without a sampled line"""
_MEETING = (Role.COLLECTIVE_FLIGHT, Role.COLLECTIVE_WAIT, Role.BATCH_FROM_WORKERS)
"""in these a thread sleeps until other ranks, or a worker's batch, are there"""


def interpret_samples(timeline: Timeline) -> Timeline:
    """Return the process with its stack samples as host events and sample weights. Time around the
    training loop is cut off, and only its length recorded."""
    if timeline.stack_samples is None:
        return timeline
    samples, stacks = timeline.stack_samples.rows, list(timeline.stack_samples.stacks)
    gil_taken = find_taken_lock(samples)
    calls, names, threads = timeline.host, list(timeline.names), list(timeline.threads)
    ident = str(timeline.process.thread or 0)
    thread = threads.index(ident) if ident in threads else len(threads)
    surroundings = find_surroundings(timeline, samples, stacks, thread)
    if surroundings is not None:
        later = samples["time"] >= surroundings.begin
        samples, gil_taken = samples[later], gil_taken[later]
        inside = calls.take_rows(calls.start >= surroundings.begin)
        calls = inside.join(surroundings.host_events(names, thread))
        threads += [ident][: thread + 1 - len(threads)]
    reads = [row for row in timeline.process.memory if row[1]]
    grows = len(reads) > 1 and reads[-1][2] > GROWN * reads[0][2]
    samples = subtract_wakeup(samples, gil_taken)
    python = find_python(samples, gil_taken, stacks)
    process = replace(
        timeline,
        names=tuple(names),
        threads=tuple(threads),
        host=calls,
        phases=surroundings.phases if surroundings else LifePhases(),
        kept_losses=find_kept_losses(stacks, timeline.sources) if grows else (),
        loading=interpret_workers(timeline.loading, timeline.vocabulary),
        stack_samples=None,
    )
    return _add_samples(process, samples, stacks, python)


def _bounding_calls(timeline: Timeline, calls: HostEvents) -> HostEvents:
    """The calls that bound the phases of a step. What runs on a device of its own is put on the
    thread that calls it: what that thread does meanwhile says nothing of the time without it."""
    phases = calls.take_rows(timeline.has_role(calls, *PHASES))
    executed = calls.take_rows(timeline.has_role(calls, Role.EXECUTION))
    if not len(executed) or not len(phases):
        return phases
    home = np.bincount(phases.thread).argmax()
    return phases.join(replace(executed, thread=np.full_like(executed.thread, home)))


def _add_samples(
    timeline: Timeline, samples: NDArray[Any], stacks: list[str], python: SampledPython
) -> Timeline:
    calls, names = timeline.host, timeline.names
    phases = _bounding_calls(timeline, calls)
    order = np.argsort(samples["time"], kind="stable")
    samples, python = samples[order], python.take_rows(order)
    read = samples["time"] + samples["waited_us"] * 1000
    shown = samples["stack"]
    samples = date_samples(phases, samples, len(stacks), python.python)
    borrowed = samples["stack"] != shown
    python = python.with_borrowed_stacks(borrowed)
    order = np.argsort(samples["time"], kind="stable")
    samples, read, stacks = samples[order], read[order], [*stacks, ""]
    python, own_stack = python.take_rows(order), ~borrowed[order]
    leaf = [stack.split(";", 1)[0] or UNSEEN for stack in stacks]
    idle = find_idle(samples, read, calls.take_rows(timeline.has_role(calls, *_MEETING)))
    kinds, blocked, locked = classify_samples(
        timeline, samples, read, stacks, idle=idle, ran=python.python
    )
    rows, start, end = weigh_samples(phases, samples)
    weights = make_looks(phases, samples, spoken=(rows, end - start), found=python, own=own_stack)
    samples, kinds, blocked, locked = samples[rows], kinds[rows], blocked[rows], locked[rows]
    ended_here = python.after[rows] & ~blocked & ~locked
    frames = StackFrames([*names, *leaf])
    frames.add_samples(samples, start, end, stacks)
    sampled = samples["stack"] + len(names)
    sampled[blocked] = frames.number_of(BLOCKED)
    sampled[locked] = frames.number_of(LOCKED)
    begin, until, name, thread = np.array(frames.events, dtype=np.int64).reshape(-1, 4).T
    shown = samples["stack"] + len(stacks) * ended_here
    host = calls.join(
        HostEvents.from_columns(begin, until, kind=HostKind.PYTHON, name=name, thread=thread),
        HostEvents.from_columns(
            start, end, kind=kinds, name=sampled, thread=samples["thread"], detail=shown
        ),
    )
    details = [Detail(stack=stack, after=after) for after in (False, True) for stack in stacks]
    return with_evaluation_calls(
        replace(
            timeline, names=tuple(frames.names), details=tuple(details), host=host, looks=weights
        )
    )
