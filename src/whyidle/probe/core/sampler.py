"""Asks a few dozen times a second what the training thread is doing, and writes it down.

It runs from the framework's import on, slowly, and at full pace once the process trains. A process
that goes on without training is told of as one that does not, with the samples. Besides
the stack it notes what tells work from waiting without touching the thread: how long the
interpreter's lock was held when the sampler wanted it (long: Python was running, not a native
operator), how long the thread itself was runnable (it was not: it waits for something), and, of one
that slept since the last look, whether it does so now. However short the wait for the lock, the
kernel counts it: a thread that sleeps lets go of its core once, and once more at least where it has
to wait after that. Where the looks together cost more than ``BUDGET`` of the time, they become
rarer.

Looks come at random moments: evenly spaced ones, or such as are counted from the end of the last
one, fall into step with a training loop of about their period, and then see always the same part of
it (McCanne & Torek, "A Randomized Sampling Clock for CPU Utilization Estimation and Code
Profiling", USENIX Winter 1993). A look is dated when the thread asked for the interpreter's lock.
"""

from __future__ import annotations

import _thread
import contextlib
import operator
import os
import resource
import threading
import time
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any

from . import containment
from .own_files import FOLDER
from .recorder import FLUSH_S, Recorder, clock_ns
from .thread_stacks import frames_of

PERIOD_S = 0.02
WAITING_S = 0.1
"""between looks before the first step"""
SEEN_S = 2.0
"""a process that has not trained after this long is told of as one that might"""
PATIENCE_S = 900.0
RARELY_S = 2.0
"""between looks at a process that has not trained after ``PATIENCE_S``"""
RAREST_S = 0.2
"""between looks, however dear they are"""
CHORES_S = 1.0
PARTING_S, LAST_S = 1.0, 10.0
"""how long a process that ends waits at most for the thread: the shorter where it does not move,
for it may hang in a write to a disk; the longer where it works, or wants a core and gets none"""
BUDGET, EARLY_BUDGET, EARLY_LOOKS = 0.0015, 0.006, 500
"""share of the time that looks may take: more at first, so that short runs are judged, too"""
LATER = 2
"""times as long between writes, after ``EARLY_LOOKS``: one costs the job what two looks cost it"""
FELT = 2.2
"""times its own CPU that a look takes from the job, which waits for the interpreter's lock and is
woken: 112 us of 49, 180 of 99, 239 of 128 in three runs of 7 us operators, one after the other"""
DEPTH = 48
HELD_BITS, AWAKE = 28, 1 << 31
LONGEST_US, MOST_SLEEPS = (1 << HELD_BITS) - 1, 7
SLEPT = 0.1
"""of the time since the last look: a thread that slept for less is not asked about"""
_THREAD: int | None = getattr(resource, "RUSAGE_THREAD", None)  # Linux has it
_CODE, _AT = operator.attrgetter("f_code"), operator.attrgetter("f_lasti")
MOST_KEYS = 20_000
_DRIVER = os.environ.get("WHYIDLE_DRIVER")
_OWN = (FOLDER, *(folder + os.sep for folder in (_DRIVER,) if folder))
"""files whose frames no stack shows: the probe's, and those of the folder ``WHYIDLE_DRIVER``, whose
Python stands for a device's driver"""


def _no_function() -> None:
    """No word is wanted of this process before it trains."""


class Sampler:
    """What runs on the sampling thread of one process. ``chores`` are called now and then, ``seen``
    once, when it has not trained for a while."""

    def __init__(
        self,
        recorder: Recorder,
        thread: int,
        chores: Sequence[Callable[[], Any]] = (),
        seen: Callable[[], Any] = _no_function,
    ) -> None:
        self.recorder = recorder
        self.seen = seen
        self.watched = thread
        self.chores = chores
        self.looking: Callable[[], Any] | None = None
        """called at every look"""
        self.period_s = PERIOD_S
        self.looks = 0
        self.spent_s = self.look_s = self.others_s = self.begun = 0.0
        self.stacks = StackTable(recorder)
        self._first: tuple[int, int, int] | None = None
        self._due = 0
        self._chance = clock_ns() & 0xFFFFFFFF
        self._clock = _ThreadClock(_native_id(thread))
        self._last = (0, 0)
        self._own = _ThreadClock(None)
        self._asleep, self._running = _thread.allocate_lock(), _thread.allocate_lock()
        self._asleep.acquire()  # whoever releases it wakes the thread for the last time

    def follow(self, thread: int) -> None:
        """Watch another thread from now on."""
        if thread != self.watched:
            self._first = None
            self.watched, self._clock, self._last = thread, _ThreadClock(_native_id(thread)), (0, 0)

    def start(self) -> None:
        """Begin."""
        self._running.acquire()
        containment.start_thread(self._contained)

    def _contained(self) -> None:
        try:
            containment.run_contained(self.recorder.folder, "sampler", self.run_loop)
        finally:
            self._running.release()

    def stop(self) -> bool:
        """End the thread and wait for that; whether it has ended. A thread that is alive while the
        interpreter falls apart is killed wherever it stands, which ends the process where that is
        C++ code that must not be left."""
        with contextlib.suppress(RuntimeError):  # it was asked before
            self._asleep.release()
        last, (before, _) = time.monotonic() + LAST_S, self._own.read_clock()
        while not self._running.acquire(timeout=PARTING_S):
            ran, _ = self._own.read_clock()
            if ran <= before or time.monotonic() > last:
                return False
            before = ran
        self._running.release()
        return True

    def run_loop(self) -> None:
        """Look, and write now and then, until the process ends."""
        self._own = _ThreadClock(threading.get_native_id())
        written = done = begun = self.begun = time.monotonic()
        while not self.recorder.broken:
            training = bool(self.recorder.facts or self.recorder.documents)
            early = WAITING_S if time.monotonic() - begun < PATIENCE_S else RARELY_S
            if self.take_sample(self.period_s if training else early):
                return
            if self.looking is not None:
                self.looking()
            moment = time.monotonic()
            if not self.recorder.facts and moment - begun > SEEN_S:
                self.seen()
            if training and moment - done > CHORES_S:
                done = moment
                self._do_chores()
            if moment - written > FLUSH_S * (1 if self.looks < EARLY_LOOKS else LATER):
                written = moment
                self.recorder.flush_records()

    def _do_chores(self) -> None:
        begin = time.thread_time()
        ran, waited = self._clock.read_clock()
        if self._first is None or ran < self._first[0]:
            self._first = (ran, waited, clock_ns())
        for chore in self.chores:
            chore()
        self.others_s += time.thread_time() - begin
        told = {
            "looks": self.looks,
            "look_s": self.look_s,
            "spent_s": round(self.spent_s, 6),
            "chores_s": round(self.others_s, 6),
            "cpu_s": round(time.thread_time(), 6),
            "elapsed_s": round(time.monotonic() - self.begun, 6),
            "core_wait_s": (waited - self._first[1]) / 1e9 if ran >= 0 else None,
            "core_seen_s": (clock_ns() - self._first[2]) / 1e9,
        }
        if self.recorder.facts:
            self.recorder.facts["sampler"] = told

    def take_sample(self, period_s: float) -> bool:
        """Wait, then record one sample of the watched thread, dated when the lock was asked for.
        Whether it was asked to stop, and recorded nothing."""
        begin = clock_ns()
        wanted = self._next_sample_time(begin, int(period_s * 1e9))
        _, before = self._own.read_clock()
        slept = _count_sleeps()
        if self._asleep.acquire(timeout=(wanted - begin) / 1e9):
            return True
        got, begun, slept = clock_ns(), time.thread_time(), _count_sleeps() - slept
        frames = frames_of(self.watched)
        stack = self.stacks.stack_number(frames) if frames else -1
        del frames  # the stack first: what follows lets go of the lock, and the job goes on
        runnable, _ = self._clock.read_clock()
        awake = self._has_slept(got, runnable) and self._clock.is_awake()
        _, after = self._own.read_clock()
        if stack >= 0:
            held = min(max(0, got - wanted - max(0, after - before)) // 1000, LONGEST_US)
            asked = got - held * 1000  # later than wanted by what it waited for a core
            told = held | min(slept, MOST_SLEEPS) << HELD_BITS | (AWAKE if awake else 0)
            self.recorder.add_sample((asked, runnable, self.watched, stack, told))
        self._adjust_period(time.thread_time() - begun)
        return False

    def _has_slept(self, moment: int, runnable: int) -> bool:
        """Whether the watched thread slept since the last look."""
        (before, ran), self._last = self._last, (moment, runnable)
        return runnable - ran < (1.0 - SLEPT) * (moment - before)

    def _next_sample_time(self, moment: int, period: int) -> int:
        """When the next look is due, ns: half to one and a half periods after the last one was."""
        self._chance = (1664525 * self._chance + 1013904223) & 0xFFFFFFFF
        after = period // 2 + (period * self._chance >> 32)
        due = self._due + after
        self._due = due if due > moment else moment + after
        return self._due

    def _adjust_period(self, spent: float) -> None:
        """The next look comes the later, the dearer the last ones were."""
        self.looks += 1
        self.spent_s += spent
        self.look_s += (spent - self.look_s) / min(self.looks, 20)
        budget = EARLY_BUDGET if self.looks < EARLY_LOOKS else BUDGET
        self.period_s = min(max(PERIOD_S, FELT * self.look_s / budget), RAREST_S)


class StackTable:
    """Numbers stacks. Text is made once per stack: later looks compare code and position only."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._known: dict[tuple[int, ...], int] = {}
        self._alive: dict[int, CodeType] = {}

    def stack_number(self, frames: Sequence[FrameType]) -> int:
        """The number of a stack, given innermost frame first; frames of our own are left out."""
        codes = tuple(map(_CODE, frames))
        key = (*map(id, codes), *map(_AT, frames))
        found = self._known.get(key)
        if found is None:
            found = self._learn_stack(key, codes, frames)
        return found

    def _learn_stack(
        self, key: tuple[int, ...], codes: Sequence[CodeType], frames: Sequence[FrameType]
    ) -> int:
        if len(self._known) >= MOST_KEYS:
            self._known.clear()
            self._alive.clear()
        self._alive.update(zip(map(id, codes), codes, strict=True))  # no other code gets its id
        found = self._known[key] = self.recorder.stack_number(describe_stack(frames))
        return found


def describe_stack(frames: Sequence[FrameType]) -> str:
    """A stack as text, innermost frame first: ``file(line): function;...``."""
    parts: list[str] = []
    for frame in frames:
        code = frame.f_code
        if not code.co_filename.startswith(_OWN):
            parts.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
    return ";".join(parts[:DEPTH])


def _count_sleeps() -> int:
    """How often this thread has let go of its core to wait for something; 0 where the kernel does
    not tell. Asked without letting go of the interpreter's lock."""
    return 0 if _THREAD is None else resource.getrusage(_THREAD).ru_nvcsw


class _ThreadClock:
    """How long a thread of this process has run, or wanted to run, as the kernel counts it."""

    def __init__(self, native: int | None) -> None:
        self._file: int | None = None
        self._state: int | None = None
        if native is not None:
            with contextlib.suppress(OSError):  # else waiting cannot be told from working
                self._file = os.open(f"/proc/self/task/{native}/schedstat", os.O_RDONLY)
                self._state = os.open(f"/proc/self/task/{native}/stat", os.O_RDONLY)

    def read_clock(self) -> tuple[int, int]:
        """(ns on a CPU or waiting for one, -1: unknown; ns of it spent waiting for one)."""
        if self._file is None:
            return -1, 0
        try:
            ran, waited = os.pread(self._file, 80, 0).split()[:2]
            return int(ran) + int(waited), int(waited)
        except (OSError, ValueError):
            self._file = None
            return -1, 0

    def is_awake(self) -> bool:
        """Whether the kernel knows it as running, or as waiting for a core. Asking lets go of the
        interpreter's lock, so that a thread which waits for that is awake, too."""
        if self._state is None:
            return False
        try:
            return os.pread(self._state, 80, 0).rpartition(b")")[2][1:2] == b"R"
        except OSError:
            self._state = None
            return False


def _native_id(ident: int) -> int | None:
    for thread in threading.enumerate():
        if thread.ident == ident:
            return thread.native_id
    return None
