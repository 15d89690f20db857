"""Makes a recording of what a look from outside saw of the process that trains."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.sampling.calls_from_stacks import (
    FrameRoles,
    SeenCall,
    are_steps_seen,
    join_calls,
    name_call,
)
from whyidle.analysis.sampling.interpretation import interpret_samples
from whyidle.engine.attachment.stack_look import RATE_HZ, StackLook
from whyidle.engine.attachment.target_process import TargetProcess
from whyidle.engine.attachment.thread_clocks import ThreadClocks
from whyidle.engine.source_snapshot import MOST_BYTES, MOST_FILES
from whyidle.importers._pyspy_trace import SampledThread
from whyidle.importers.probe import FRAMEWORKS, blank_timeline
from whyidle.model.frames import own_files
from whyidle.model.loader_tables import Loading, WorkerSamples
from whyidle.model.process_facts import BurstLog, ProcessFacts
from whyidle.model.roles import Role, Vocabulary
from whyidle.model.stack_samples import STACK_SAMPLE, StackSamples
from whyidle.model.timeline import DeviceInfo, HostEvents, HostKind, Timeline

PERIOD_NS: Final = 1_000_000_000 // RATE_HZ
SECOND_NS: Final = 1_000_000_000
LEAST_SHARE: Final = 0.01
"""share of a thread's time in a framework, or in calls of a loop, from which it may train"""
AWAKE: Final = 0.4
"""a thread that was runnable for less than this share of a piece slept"""
_LABELS: Final = {
    "backward": ("whyidle::backward", HostKind.OP),
    "optimizer": ("Optimizer.step#", HostKind.ANNOTATION),
    "step_marked": ("whyidle.step", HostKind.ANNOTATION),
    "producer_work": ("input pipeline on another thread", HostKind.ANNOTATION),
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A stack (innermost frame first) of the training thread, from when until when, ns. ``role``:
    of the call that it is known to be in; ``awake``: whether its work went on meanwhile."""

    begin: int
    end: int
    frames: tuple[str, ...]
    role: str = ""
    awake: bool = False

    @property
    def text(self) -> str:
        """The stack as samples hold it."""
        return ";".join(self.frames)


@dataclass(frozen=True, slots=True)
class OutsideRecording:
    """The recording, and what is known of it: whether its steps were seen, the thread that trains,
    and for which share of the time each loader worker made batches."""

    timeline: Timeline
    steps_seen: bool
    thread: SampledThread
    workers: tuple[float, ...]
    processes: int = 1
    """that have calls of a training loop"""


def make_recording(
    target: TargetProcess, look: StackLook, clocks: ThreadClocks
) -> OutsideRecording | None:
    """Return the recording of the thread that trains; None if none of the threads does."""
    found = _find_training(look.threads)
    if found is None:
        return None
    name, roles, thread = found
    helpers = [one for one in look.threads if one is not thread and _is_worker(one, roles)]
    producers = [one for one in helpers if one.pid == thread.pid]
    workers = [one for one in helpers if one.pid != thread.pid]
    pieces = _cut_pieces(thread, producers, roles, look.begin, clocks)
    calls = join_calls((p.begin, p.end, p.role or name_call(p.frames, roles)) for p in pieces)
    seen = are_steps_seen(calls, PERIOD_NS)
    if not seen:
        ends = range(pieces[0].begin + SECOND_NS, pieces[-1].end + 1, SECOND_NS)
        calls += [SeenCall(end, end, "step_marked") for end in ends]
    timeline = replace(
        _make_timeline(target, thread, name, roles.vocabulary, calls),
        base_ns=look.begin,
        stack_samples=_take_samples(pieces, thread, look.begin, clocks),
        loading=Loading(
            cores=target.cores, worker_samples=tuple(_sample_worker(w, roles) for w in workers)
        ),
        sources=_read_sources([piece.text for piece in pieces], target.folder),
    )
    shares = tuple(_share(w, partial(roles.is_on, Role.INLINE_FRAME)) for w in workers)
    training = {one.pid for one in look.threads if _trains(one, roles)}
    return OutsideRecording(interpret_samples(timeline), seen, thread, shares, len(training))


def _trains(thread: SampledThread, roles: FrameRoles) -> bool:
    return not _is_worker(thread, roles) and any(name_call(f, roles) for f in _stacks_of(thread))


def _find_training(
    threads: Sequence[SampledThread],
) -> tuple[str, FrameRoles, SampledThread] | None:
    """The adapter, the roles of its frames, and the thread with the calls of a training loop, else
    the one that is in a framework for most of the time."""
    best, choice = (False, False, 0.0), None
    for adapter, (_, vocabulary) in FRAMEWORKS.items():
        roles = FrameRoles(vocabulary)
        for thread in threads:
            if not thread.periods or _is_worker(thread, roles):
                continue
            inside = _share(thread, partial(roles.is_on, Role.FRAMEWORK_CODE))
            loop = _share(thread, partial(_is_in_loop, roles))
            score = loop > 0.0, thread.tid == thread.pid, inside
            if max(inside, loop) >= LEAST_SHARE and score > best:
                best, choice = score, (adapter, roles, thread)
    return choice


def _is_in_loop(roles: FrameRoles, frames: tuple[str, ...]) -> bool:
    return bool(name_call(frames, roles))


def _share(thread: SampledThread, test: Callable[[tuple[str, ...]], bool]) -> float:
    total = sum(p.end - p.begin for p in thread.periods)
    known = {frames: test(frames) for frames in _stacks_of(thread)}
    return sum(p.end - p.begin for p in thread.periods if known[p.frames]) / max(total, 1)


def _is_worker(thread: SampledThread, roles: FrameRoles) -> bool:
    """Whether a thread makes batches for another one."""
    return any(roles.is_on(Role.WORKER_ENTRY, frames) for frames in _stacks_of(thread))


def _stacks_of(thread: SampledThread) -> set[tuple[str, ...]]:
    return {period.frames for period in thread.periods}


def _sample_worker(worker: SampledThread, roles: FrameRoles) -> WorkerSamples:
    """One sample a period of a worker, and which of them found it making a batch."""
    cuts = [
        (start, period.frames)
        for period in worker.periods
        for start in range(period.begin, period.end, PERIOD_NS)
    ]
    stacks = {frames: i for i, frames in enumerate(dict.fromkeys(frames for _, frames in cuts))}
    rows = np.zeros(len(cuts), STACK_SAMPLE)
    rows["time"], rows["runnable_ns"] = [start for start, _ in cuts], -1
    rows["stack"] = [stacks[frames] for _, frames in cuts]
    making = np.array([roles.is_on(Role.INLINE_FRAME, frames) for frames in stacks], dtype=bool)
    return WorkerSamples(
        StackSamples(rows, tuple(";".join(frames) for frames in stacks)), making[rows["stack"]]
    )


def _cut_pieces(
    thread: SampledThread,
    producers: Sequence[SampledThread],
    roles: FrameRoles,
    begin: int,
    clocks: ThreadClocks,
) -> list[Piece]:
    """The thread's stacks in pieces of at most one period. Where it sleeps in the framework while
    another thread of its process is awake, the framework's own threads work for it, unless only a
    producer is awake: then it waits for that thread's work, which the piece shows."""
    pieces = [
        Piece(start, min(start + PERIOD_NS, period.end), period.frames)
        for period in thread.periods
        for start in range(period.begin, period.end, PERIOD_NS)
    ]
    edges = np.array([(piece.begin, piece.end) for piece in pieces], np.int64) + begin
    awake = {tid: _awake_share(tid, edges, clocks) for tid in clocks.threads_of(thread.pid)}
    none = np.zeros(len(pieces))
    asleep = awake.pop(thread.tid or 0, none + 1.0) < AWAKE
    making = [awake.pop(one.tid or 0, none) for one in producers]
    helped = np.max([none, *awake.values()], axis=0) >= AWAKE
    waits = np.max([none, *making], axis=0) >= AWAKE
    for index in np.flatnonzero(asleep & (helped | waits)).tolist():
        piece = pieces[index]
        if not roles.plays(Role.FRAMEWORK_CODE, piece.frames[0]):
            continue
        if helped[index]:
            pieces[index] = replace(piece, awake=True)
            continue
        producer = producers[int(np.argmax([shares[index] for shares in making]))]
        inside = _frames_at(producer, (piece.begin + piece.end) // 2)
        pieces[index] = replace(
            piece, frames=(*inside, *piece.frames), role="producer_work", awake=True
        )
    return pieces


def _awake_share(tid: int, edges: NDArray[np.int64], clocks: ThreadClocks) -> NDArray[np.float64]:
    before, after = (clocks.runnable_ns(tid, edges[:, side]) for side in (0, 1))
    if before is None or after is None:
        return np.zeros(len(edges))
    return np.asarray((after - before) / np.maximum(edges[:, 1] - edges[:, 0], 1), np.float64)


def _frames_at(thread: SampledThread, moment: int) -> tuple[str, ...]:
    return next((p.frames for p in thread.periods if p.begin <= moment < p.end), ())


def _take_samples(
    pieces: Sequence[Piece], thread: SampledThread, begin: int, clocks: ThreadClocks
) -> StackSamples:
    """One sample for each piece; none waited for the interpreter lock."""
    numbers = {text: i for i, text in enumerate(dict.fromkeys(p.text for p in pieces))}
    rows = np.zeros(len(pieces), STACK_SAMPLE)
    rows["time"] = [piece.begin for piece in pieces]
    rows["stack"] = [numbers[piece.text] for piece in pieces]
    runnable = clocks.runnable_ns(thread.tid or 0, rows["time"] + begin)
    rows["runnable_ns"] = -1 if runnable is None else runnable
    rows["sleeps"] = 1
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
            bursts=BurstLog(off="a look from outside sees no operators"),
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
