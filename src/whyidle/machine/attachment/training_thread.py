"""The thread of a process that trains, and the pieces of its time: what its stacks, the kernel's
clocks and the interpreter's lock say of each."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.lines.source_lines import frame_place, own_frame
from whyidle.analysis.sampling.calls_from_stacks import FrameRoles, name_call
from whyidle.machine.attachment.stack_look import RATE_HZ
from whyidle.machine.attachment.thread_clocks import ThreadClocks
from whyidle.model.diagnosis import Place
from whyidle.model.roles import Role
from whyidle.readers._events.pyspy_trace import SampledThread
from whyidle.readers.probe import FRAMEWORKS

PERIOD_NS: Final = 1_000_000_000 // RATE_HZ
LEAST_SHARE: Final = 0.01
"""share of a thread's time in a framework from which it may train, without calls of a loop"""
AWAKE: Final = 0.4
"""a thread that was runnable for less than this share of a piece slept"""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stack (innermost frame first) of the training thread, from when until when, ns. ``role``:
    of the call that it is known to be in; ``awake``: whether its work went on meanwhile;
    ``python``: whether it held the interpreter lock, outside of the framework; ``waits``: whether
    it slept in the framework with nobody at work for it."""

    begin: int
    end: int
    frames: tuple[str, ...]
    role: str = ""
    awake: bool = False
    python: bool = False
    waits: bool = False

    @property
    def text(self) -> str:
        """The stack as samples hold it."""
        return ";".join(self.frames)


def trains(thread: SampledThread, roles: FrameRoles) -> bool:
    """Whether a thread has calls of a training loop, and makes no batches for another one."""
    return not is_worker(thread, roles) and any(name_call(f, roles) for f in _stacks_of(thread))


def find_training(threads: Sequence[SampledThread]) -> tuple[str, FrameRoles, SampledThread] | None:
    """The adapter, the roles of its frames, and the thread with the calls of a training loop, else
    the one that is in a framework for most of the time."""
    best, choice = (False, False, 0.0), None
    for adapter, (_, vocabulary) in FRAMEWORKS.items():
        roles = FrameRoles(vocabulary)
        for thread in threads:
            if not thread.periods or is_worker(thread, roles):
                continue
            inside = share(thread, partial(roles.is_on, Role.FRAMEWORK_CODE))
            loop = share(thread, partial(_is_in_loop, roles))
            score = loop > 0.0, thread.tid == thread.pid, inside
            if (loop or inside >= LEAST_SHARE) and score > best:
                best, choice = score, (adapter, roles, thread)
    return choice


def _is_in_loop(roles: FrameRoles, frames: tuple[str, ...]) -> bool:
    return bool(name_call(frames, roles))


def share(thread: SampledThread, test: Callable[[tuple[str, ...]], bool]) -> float:
    """The share of a thread's time in stacks that pass a test."""
    total = sum(p.end - p.begin for p in thread.periods)
    known = {frames: test(frames) for frames in _stacks_of(thread)}
    return sum(p.end - p.begin for p in thread.periods if known[p.frames]) / max(total, 1)


def is_worker(thread: SampledThread, roles: FrameRoles) -> bool:
    """Whether a thread makes batches for another one."""
    return any(roles.is_on(Role.WORKER_ENTRY, frames) for frames in _stacks_of(thread))


def _stacks_of(thread: SampledThread) -> set[tuple[str, ...]]:
    return {period.frames for period in thread.periods}


def cut_pieces(
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
    for index in np.flatnonzero(asleep).tolist():
        piece = pieces[index]
        if not roles.plays(Role.FRAMEWORK_CODE, piece.frames[0]):
            if _makes_input(piece.frames):
                pieces[index] = replace(piece, role="producer_work")
            continue
        if not (helped[index] or waits[index]):
            pieces[index] = replace(piece, waits=True)
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


def mark_python(pieces: list[Piece], held: Mapping[str, float], roles: FrameRoles) -> list[Piece]:
    """Mark the share of each line's pieces in which it ``held`` the interpreter lock. Operators
    release the lock, so a line that calls them is divided; which of its pieces are marked means
    nothing."""
    seen = Counter(piece.frames[0] for piece in pieces)
    shares = {
        leaf: 0.0 if roles.plays(Role.FRAMEWORK_CODE, leaf) else min(1.0, held.get(leaf, 0.0) / n)
        for leaf, n in seen.items()
    }
    due: Counter[str] = Counter()
    marked = []
    for piece in pieces:
        leaf = piece.frames[0]
        before, due[leaf] = due[leaf], due[leaf] + 1
        share = shares[leaf]
        marked.append(replace(piece, python=int((before + 1) * share) > int(before * share)))
    return marked


def _awake_share(tid: int, edges: NDArray[np.int64], clocks: ThreadClocks) -> NDArray[np.float64]:
    before, after = (clocks.runnable_ns(tid, edges[:, side]) for side in (0, 1))
    if before is None or after is None:
        return np.zeros(len(edges))
    return np.asarray((after - before) / np.maximum(edges[:, 1] - edges[:, 0], 1), np.float64)


def _frames_at(thread: SampledThread, moment: int) -> tuple[str, ...]:
    return next((p.frames for p in thread.periods if p.begin <= moment < p.end), ())


N = TypeVar("N", bound=ast.AST)
_ELSEWHERE = re.compile(r"/(queue|multiprocessing/(queues|pool|connection)|concurrent/.*)\.py\(")
_TELLS = frozenset(["print", "log", "info", "debug", "warning", "write", "append", "str", "format"])


@lru_cache(maxsize=64)
def _nodes_of(file: str) -> tuple[ast.AST, ...]:
    try:
        return tuple(ast.walk(ast.parse(Path(file).read_bytes())))
    except (OSError, SyntaxError, ValueError):
        return ()


def _statements_around(place: Place | None) -> Iterator[ast.stmt]:
    """The statements around a line, from the outside."""
    for node in _nodes_of(place.file or "") if place is not None else ():
        line = place.line or 0 if place is not None else 0
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            yield node


def _makes_input(frames: tuple[str, ...]) -> bool:
    """Whether a call on a stack (innermost frame first) returns what other calls of its loop take:
    ``x = load()`` and ``model(x)``, however long ``load`` sleeps. What is only printed is none;
    what a queue or a pool gives is made elsewhere."""
    if any(_ELSEWHERE.search(frame) for frame in frames):
        return False
    return any(_is_used_later(frame_place(frame, None)) for frame in frames if own_frame(frame))


@lru_cache(maxsize=1024)
def _is_used_later(place: Place | None) -> bool:
    around = list(_statements_around(place))
    loops = [node for node in around if isinstance(node, ast.For | ast.While)]
    made = around[-1] if loops else None
    if not isinstance(made, ast.Assign) or not _nodes(made.value, ast.Call):
        return False
    names = {one.id for target in made.targets for one in _nodes(target, ast.Name)}
    calls = [call for call in _nodes(loops[-1], ast.Call) if _name_of(call) not in _TELLS]
    taken = {one.id for call in calls for arg in call.args for one in _nodes(arg, ast.Name)}
    return bool(names & taken)


def _nodes(inside: ast.AST, kind: type[N]) -> list[N]:
    return [node for node in ast.walk(inside) if isinstance(node, kind)]


def _name_of(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]
