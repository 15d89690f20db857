"""Makes a recording of what a look from outside saw of the process that trains."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from whyidle.analysis.sampling.calls_from_stacks import (
    FrameRoles,
    SeenCall,
    are_steps_seen,
    join_calls,
    name_call,
)
from whyidle.analysis.sampling.interpretation import interpret_samples
from whyidle.machine.attachment.stack_look import StackLook
from whyidle.machine.attachment.target_process import TargetProcess
from whyidle.machine.attachment.thread_clocks import ThreadClocks
from whyidle.machine.attachment.training_thread import (
    PERIOD_NS,
    Piece,
    cut_pieces,
    find_training,
    is_worker,
    mark_python,
    share,
    trains,
)
from whyidle.model.frames import own_files
from whyidle.model.loader_tables import Loading, WorkerSamples
from whyidle.model.process_facts import BurstLog, ProcessFacts
from whyidle.model.roles import Role, Vocabulary
from whyidle.model.stack_samples import STACK_SAMPLE, StackSamples
from whyidle.model.timeline import DeviceInfo, HostEvents, HostKind, Timeline
from whyidle.readers._events.pyspy_trace import SampledThread
from whyidle.readers.probe import FRAMEWORKS, blank_timeline
from whyidle.record.source_snapshot import MOST_BYTES, MOST_FILES

SECOND_NS: Final = 1_000_000_000
HELD_US: Final = PERIOD_NS // 1000
"""how long a sampler would have waited for the lock that a thread holds in a piece of Python"""
_LABELS: Final = {
    "backward": ("whyidle::backward", HostKind.OP),
    "optimizer": ("Optimizer.step#", HostKind.ANNOTATION),
    "step_marked": ("whyidle.step", HostKind.ANNOTATION),
    "collective_wait": ("wait for other ranks", HostKind.ANNOTATION),
    "producer_work": ("input pipeline on another thread", HostKind.ANNOTATION),
}


@dataclass(frozen=True, slots=True)
class OutsideRecording:
    """The recording of one process, and what is known of it: whether its steps were seen, the
    thread that trains, for which share of the time each loader worker made batches, and for which
    the thread slept in the framework with nobody at work for it."""

    timeline: Timeline
    steps_seen: bool
    thread: SampledThread
    workers: tuple[float, ...]
    waiting: float
    lock_seen: bool
    """whether Python could be distinguished from operators"""


@dataclass(frozen=True, slots=True)
class _Training:
    """What was seen of one process that trains."""

    adapter: str
    roles: FrameRoles
    thread: SampledThread
    workers: list[SampledThread]
    pieces: list[Piece]
    lock_seen: bool
    calls: list[SeenCall]


def make_recordings(
    target: TargetProcess, look: StackLook, clocks: ThreadClocks
) -> list[OutsideRecording]:
    """Return a recording of each process that trains, by rank; none if no thread does. If steps of
    one are too short to be seen, all are divided into seconds."""
    seen = _find_processes(target, look, clocks)
    steps = all(are_steps_seen(one.calls, PERIOD_NS) for one in seen)
    several = len(seen) > 1
    known = [target.ranks.get(one.thread.pid) for one in seen]
    distinct = None not in known and len(set(known)) == len(known)
    return [
        _make_recording(
            target, look, clocks, one, steps=steps,
            rank=(known[n] if distinct else n) if several else None, ranks=len(seen),
        )
        for n, one in enumerate(seen)
    ]  # fmt: skip


def trains_elsewhere(pid: int, look: StackLook) -> bool:
    """Whether other processes than ``pid`` were seen to train."""
    return any(_training_pids(one[1], look) - {pid} for one in FRAMEWORKS.values())


def _find_processes(
    target: TargetProcess, look: StackLook, clocks: ThreadClocks
) -> list[_Training]:
    trainers = {pid for one in FRAMEWORKS.values() for pid in _training_pids(one[1], look)}
    groups: dict[int, list[SampledThread]] = {}
    for thread in look.threads:
        owner = target.owner_of(thread.pid, trainers)
        if owner is not None or not trainers:  # without calls of a loop all are one process
            groups.setdefault(owner or target.pid, []).append(thread)
    found = (_read_process(threads, look, clocks) for threads in groups.values())
    seen = [one for one in found if one is not None]
    ranks = target.ranks
    return sorted(seen, key=lambda one: (ranks.get(one.thread.pid, len(ranks)), one.thread.pid))


def _training_pids(vocabulary: Vocabulary, look: StackLook) -> set[int]:
    roles = FrameRoles(vocabulary)
    return {one.pid for one in look.threads if trains(one, roles)}


def _read_process(
    threads: Sequence[SampledThread], look: StackLook, clocks: ThreadClocks
) -> _Training | None:
    found = find_training(threads)
    if found is None:
        return None
    name, roles, thread = found
    helpers = [one for one in threads if one is not thread and is_worker(one, roles)]
    producers = [one for one in helpers if one.pid == thread.pid]
    workers = [one for one in helpers if one.pid != thread.pid]
    pieces = cut_pieces(thread, producers, roles, look.begin, clocks)
    held = (look.holders or {}).get((thread.pid, thread.tid))
    if held is not None:
        pieces = mark_python(pieces, held, roles)
    calls = name_calls(pieces, roles)
    lock_seen = look.holders is not None
    return _Training(name, roles, thread, workers, pieces, lock_seen, calls)


def _make_recording(
    target: TargetProcess,
    look: StackLook,
    clocks: ThreadClocks,
    seen: _Training,
    *,
    steps: bool,
    rank: int | None,
    ranks: int,
) -> OutsideRecording:
    pieces, calls, roles = seen.pieces, list(seen.calls), seen.roles
    if ranks > 1:
        calls = name_calls(pieces, roles, waits="collective_wait")
    if not steps:
        ends = range(pieces[0].begin + SECOND_NS, pieces[-1].end + 1, SECOND_NS)
        calls += [SeenCall(end, end, "step_marked") for end in ends]
    timeline = replace(
        _make_timeline(target, seen.thread, seen.adapter, roles.vocabulary, calls),
        base_ns=look.begin,
        rank=rank,
        world_size=ranks if ranks > 1 else None,
        stack_samples=_take_samples(pieces, seen.thread, look.begin, clocks),
        loading=Loading(
            cores=target.cores,
            worker_samples=tuple(_sample_worker(w, roles, look.children_hz) for w in seen.workers),
        ),
        sources=_read_sources([piece.text for piece in pieces], target.folder),
    )
    shares = tuple(share(w, partial(roles.is_on, Role.INLINE_FRAME)) for w in seen.workers)
    made = interpret_samples(timeline)
    waiting = sum(piece.waits for piece in pieces) / max(len(pieces), 1)
    return OutsideRecording(made, steps, seen.thread, shares, waiting, seen.lock_seen)


def name_calls(pieces: Sequence[Piece], roles: FrameRoles, waits: str = "") -> list[SeenCall]:
    """The calls of the training loop. ``waits``: the role of waiting with nobody at work."""
    return join_calls(
        (p.begin, p.end, (p.waits and waits) or p.role or name_call(p.frames, roles))
        for p in pieces
    )


def _sample_worker(worker: SampledThread, roles: FrameRoles, rate_hz: int) -> WorkerSamples:
    """One sample a period of a worker, and which of them found it making a batch."""
    cuts = [
        (start, period.frames)
        for period in worker.periods
        for start in range(period.begin, period.end, SECOND_NS // rate_hz)
    ]
    stacks = {frames: i for i, frames in enumerate(dict.fromkeys(frames for _, frames in cuts))}
    rows = np.zeros(len(cuts), STACK_SAMPLE)
    rows["time"], rows["runnable_ns"] = [start for start, _ in cuts], -1
    rows["stack"] = [stacks[frames] for _, frames in cuts]
    making = np.array([roles.is_on(Role.INLINE_FRAME, frames) for frames in stacks], dtype=bool)
    return WorkerSamples(
        StackSamples(rows, tuple(";".join(frames) for frames in stacks)), making[rows["stack"]]
    )


def _take_samples(
    pieces: Sequence[Piece], thread: SampledThread, begin: int, clocks: ThreadClocks
) -> StackSamples:
    """One sample for each piece. Where Python held the interpreter lock, it is as if the sampler
    had waited for it until the next one."""
    numbers = {text: i for i, text in enumerate(dict.fromkeys(p.text for p in pieces))}
    rows = np.zeros(len(pieces), STACK_SAMPLE)
    rows["time"] = [piece.begin for piece in pieces]
    rows["stack"] = [numbers[piece.text] for piece in pieces]
    python = np.array([piece.python for piece in pieces], bool)
    rows["sleeps"], rows["waited_us"] = np.where(python, 2, 1), np.where(python, HELD_US, 0)
    read = rows["time"] + begin + rows["waited_us"] * 1000
    runnable = clocks.runnable_ns(thread.tid or 0, read)
    rows["runnable_ns"] = -1 if runnable is None else runnable
    rows["awake"] = [piece.awake for piece in pieces]
    return StackSamples(rows, tuple(numbers))


def _make_timeline(
    target: TargetProcess,
    thread: SampledThread,
    adapter: str,
    vocabulary: Vocabulary,
    calls: Sequence[SeenCall],
) -> Timeline:
    roles = list(dict.fromkeys(call.role for call in calls))
    labels = [_LABELS.get(role, (role, HostKind.ANNOTATION)) for role in roles]
    columns = [(c.begin, c.end, roles.index(c.role)) for c in calls]
    start, end, name = np.array(columns, np.int64).reshape(-1, 3).T
    kinds = np.array([int(kind) for _, kind in labels] or [0], np.int64)
    blank = blank_timeline(Path(f"process {thread.pid}"))
    return replace(
        blank,
        names=tuple(label for label, _ in labels),
        roles=tuple(roles),
        threads=(str(thread.tid),),
        host=HostEvents.from_columns(
            start, end, kind=kinds[name] if len(name) else 0, name=name, thread=0
        ).join(),
        info=DeviceInfo(),
        hostname=socket.gethostname(),
        framework=FRAMEWORKS[adapter][0],
        vocabulary=vocabulary,
        process=ProcessFacts(
            pid=thread.pid,
            argv=tuple(target.command[1:]),
            framework=adapter,
            thread=thread.tid,
            device="cpu",  # of a GPU job, too, only the thread that feeds it is seen
            cores=target.cores,
            bursts=BurstLog(off="operators are not visible from outside"),
        ),
    )


def _read_sources(stacks: Sequence[str], folder: str | None) -> dict[str, str]:
    sources = {}
    for name in own_files(stacks)[:MOST_FILES]:
        path = Path(folder or "/") / name
        with suppress(OSError, ValueError):
            if path.stat().st_size <= MOST_BYTES:
                sources[name] = path.read_text(encoding="utf-8")
    return sources
