"""Samples the stack of the training thread a few dozen times a second.

The sampler runs from the framework's import on, slowly at first, and at full rate once the process
trains. A process that never trains is reported as such, with its samples. Each sample also records
what tells work from waiting without touching the thread: how long the interpreter lock was held
when the sampler requested it (long: Python was running, not a native operator), how long the thread
was runnable (less than the elapsed time: it waited) and, for a thread that slept since the last
sample, whether it sleeps now. The kernel counts even a short wait for the lock: the sampler's
thread gives up its core once to sleep, and at least once more if it then has to wait. When samples
cost more than ``BUDGET`` of the time, they become rarer.

Samples are taken at random moments: evenly spaced ones fall into step with a training loop of about
the same period and then always see the same part of it (McCanne & Torek, "A Randomized Sampling
Clock for CPU Utilization Estimation and Code Profiling", USENIX Winter 1993). A sample's time is
the moment at which the sampler requested the interpreter lock.
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

from . import fault_containment
from .own_files import FOLDER, name_file
from .recorder import FLUSH_S, MOST_STACKS, Recorder, clock_ns
from .thread_stacks import frames_of

PERIOD_S = 0.02
WAITING_S = 0.1
"""period before the first step"""
SEEN_S = 2.0
"""time without training after which a process is reported as one that does not train (yet)"""
PATIENCE_S = 900.0
RARELY_S = 2.0
"""period in a process that has not trained after ``PATIENCE_S``"""
RAREST_S = 0.2
"""longest period while training, whatever samples cost"""
CHORES_S, LOOK_CHORES_S = 1.0, 0.2
"""time between chores; shorter with ``--profile look``, for runs of a second or two"""
PARTING_S, LAST_S = 1.0, 10.0
"""how long a process that ends waits at most for the sampler: the shorter time if its thread makes
no progress, as it may hang in a write to a disk; the longer if it works or waits for a core"""
BUDGET, EARLY_BUDGET, EARLY_LOOKS = 0.0015, 0.006, 500
"""share of the time that samples may take: more at first, so that short runs can be judged too"""
LATER = 2
"""factor on the time between writes after ``EARLY_LOOKS``: a write costs as much as two samples"""
FELT = 2.2
"""cost of a sample to the job, which waits for the interpreter lock and is woken, as a multiple of
the sample's own CPU time: 112 us of 49, 180 of 99, 239 of 128 in three runs of 7 us operators"""
DEPTH = 48
HELD_BITS, AWAKE = 28, 1 << 31
LONGEST_US, MOST_SLEEPS = (1 << HELD_BITS) - 1, 7
SLEPT = 0.1
"""share of the time since the last sample that a thread must have slept to be asked whether it
still does"""
_THREAD: int | None = getattr(resource, "RUSAGE_THREAD", None)  # Linux has it
_CODE, _AT = operator.attrgetter("f_code"), operator.attrgetter("f_lasti")
_DRIVER = os.environ.get("WHYIDLE_DRIVER")
_OWN = (FOLDER, *(folder + os.sep for folder in (_DRIVER,) if folder))
"""files whose frames no stack shows: the probe's, and those of the folder ``WHYIDLE_DRIVER``, whose
Python stands for a device's driver"""


def _do_nothing() -> None:
    """Default of ``Sampler.seen``."""


class Sampler:
    """The sampling thread of one process. It calls ``chores`` every ``chores_s``, and ``seen``
    when the process has not trained after ``SEEN_S``."""

    def __init__(
        self,
        recorder: Recorder,
        thread: int,
        chores: Sequence[Callable[[], Any]] = (),
        seen: Callable[[], Any] = _do_nothing,
    ) -> None:
        self.recorder = recorder
        self.seen = seen
        self.watched = thread
        self.chores = chores
        self.chores_s = LOOK_CHORES_S if os.environ.get("WHYIDLE_PROFILE") == "look" else CHORES_S
        self.looking: Callable[[], Any] | None = None
        """called at every sample"""
        self.period_s = PERIOD_S
        self.looks = 0
        self.look_s = self.begun = 0.0
        self.stacks = StackTable(recorder)
        self._first: tuple[int, int, int] | None = None
        self._due = 0
        self._chance = clock_ns() & 0xFFFFFFFF
        self._clock = _ThreadClock(_native_id(thread))
        self._last = (0, 0)
        self._own = _ThreadClock(None)
        self._asleep, self._running = _thread.allocate_lock(), _thread.allocate_lock()
        self._asleep.acquire()  # ``stop`` releases it and so wakes the thread for the last time

    def follow(self, thread: int) -> None:
        """Sample another thread from now on."""
        if thread != self.watched:
            self._first = None
            self.watched, self._clock, self._last = thread, _ThreadClock(_native_id(thread)), (0, 0)

    def start(self) -> None:
        """Start the sampling thread."""
        self._running.acquire()
        fault_containment.start_thread(self._run_thread)

    def _run_thread(self) -> None:
        try:
            fault_containment.run_contained(self.recorder.folder, "sampler", self.run_loop)
        finally:
            self._running.release()

    def stop(self) -> bool:
        """End the thread and wait for it; return whether it has ended.

        Python kills a thread that is alive at interpreter shutdown wherever it is, which ends the
        process if that is C++ code that must not be left.
        """
        with contextlib.suppress(RuntimeError):  # stopped before
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
        """Sample, and write at intervals, until the process ends."""
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
            if training and moment - done > self.chores_s:
                done = moment
                self._do_chores()
            if moment - written > FLUSH_S * (1 if self.looks < EARLY_LOOKS else LATER):
                written = moment
                self.recorder.flush_records()

    def _do_chores(self) -> None:
        ran, waited = self._clock.read_clock()
        if self._first is None or ran < self._first[0]:
            self._first = (ran, waited, clock_ns())
        for chore in self.chores:
            chore()
        facts = {
            "cpu_s": round(time.thread_time(), 6),
            "elapsed_s": round(time.monotonic() - self.begun, 6),
            "core_wait_s": (waited - self._first[1]) / 1e9 if ran >= 0 else None,
            "core_seen_s": (clock_ns() - self._first[2]) / 1e9,
        }
        if self.recorder.facts:
            self.recorder.facts["sampler"] = facts

    def take_sample(self, period_s: float) -> bool:
        """Wait, then record one sample of the watched thread. Returns True, without a sample, if
        the sampler was stopped."""
        begin = clock_ns()
        due_ns = self._next_sample_time(begin, int(period_s * 1e9))
        _, before = self._own.read_clock()
        slept = _count_sleeps()
        if self._asleep.acquire(timeout=(due_ns - begin) / 1e9):
            return True
        got, begun, slept = clock_ns(), time.thread_time(), _count_sleeps() - slept
        frames = frames_of(self.watched)
        stack = self.stacks.stack_number(frames) if frames else -1
        del frames  # the stack first: what follows releases the lock, and the job continues
        runnable, _ = self._clock.read_clock()
        awake = self._has_slept(got, runnable) and self._clock.is_awake()
        _, after = self._own.read_clock()
        if stack >= 0:
            held = min(max(0, got - due_ns - max(0, after - before)) // 1000, LONGEST_US)
            requested_ns = got - held * 1000  # later than ``due_ns`` by the wait for a core
            flags = held | min(slept, MOST_SLEEPS) << HELD_BITS | (AWAKE if awake else 0)
            self.recorder.add_sample((requested_ns, runnable, self.watched, stack, flags))
        self._adjust_period(time.thread_time() - begun)
        return False

    def _has_slept(self, moment: int, runnable: int) -> bool:
        """Whether the watched thread slept since the last sample."""
        (before, ran), self._last = self._last, (moment, runnable)
        return runnable - ran < (1.0 - SLEPT) * (moment - before)

    def _next_sample_time(self, moment: int, period: int) -> int:
        """When the next sample is due, ns: half to one and a half periods after the last one."""
        self._chance = (1664525 * self._chance + 1013904223) & 0xFFFFFFFF
        after = period // 2 + (period * self._chance >> 32)
        due = self._due + after
        self._due = due if due > moment else moment + after
        return self._due

    def _adjust_period(self, spent: float) -> None:
        """Lengthen the period as samples become more expensive."""
        self.looks += 1
        self.look_s += (spent - self.look_s) / min(self.looks, 20)
        budget = EARLY_BUDGET if self.looks < EARLY_LOOKS else BUDGET
        self.period_s = min(max(PERIOD_S, FELT * self.look_s / budget), RAREST_S)


class StackTable:
    """Numbers stacks. A stack is written as text once: later samples compare code and position."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._known: dict[tuple[int, ...], int] = {}
        self._alive: dict[int, CodeType] = {}

    def stack_number(self, frames: Sequence[FrameType]) -> int:
        """Return the number of a stack, innermost frame first, without frames of the probe."""
        codes = tuple(map(_CODE, frames))
        key = (*map(id, codes), *map(_AT, frames))
        number = self._known.get(key)
        if number is None:
            number = self._learn_stack(key, codes, frames)
        return number

    def _learn_stack(
        self, key: tuple[int, ...], codes: Sequence[CodeType], frames: Sequence[FrameType]
    ) -> int:
        if len(self._known) >= MOST_STACKS:
            self._known.clear()
            self._alive.clear()
        self._alive.update(zip(map(id, codes), codes, strict=True))  # so that ids are not reused
        number = self._known[key] = self.recorder.stack_number(describe_stack(frames))
        return number


def describe_stack(frames: Sequence[FrameType]) -> str:
    """Format a stack, innermost frame first: ``file(line): function;...``."""
    parts: list[str] = []
    for frame in frames:
        code = frame.f_code
        if not code.co_filename.startswith(_OWN):
            parts.append(f"{name_file(code.co_filename)}({frame.f_lineno}): {code.co_name}")
    return ";".join(parts[:DEPTH])


def _count_sleeps() -> int:
    """Voluntary context switches of this thread; 0 where the kernel does not count them. Read
    without releasing the interpreter lock."""
    return 0 if _THREAD is None else resource.getrusage(_THREAD).ru_nvcsw


class _ThreadClock:
    """How long a thread of this process has been runnable, as the kernel counts it."""

    def __init__(self, native: int | None) -> None:
        self._file: int | None = None
        self._state: int | None = None
        if native is not None:
            with contextlib.suppress(OSError):  # then waiting cannot be distinguished from working
                self._file = os.open(f"/proc/self/task/{native}/schedstat", os.O_RDONLY)
                self._state = os.open(f"/proc/self/task/{native}/stat", os.O_RDONLY)

    def __del__(self) -> None:
        for file in (self._file, self._state):  # no thread reads them any more
            if file is not None:
                os.close(file)

    def read_clock(self) -> tuple[int, int]:
        """Return ns on a CPU or waiting for one (-1: unknown), and ns of it waiting for one."""
        if self._file is None:
            return -1, 0
        try:
            ran, waited = os.pread(self._file, 80, 0).split()[:2]
            return int(ran) + int(waited), int(waited)
        except (OSError, ValueError):
            return -1, 0

    def is_awake(self) -> bool:
        """Whether the thread is running or waiting for a core. Reading this releases the
        interpreter lock, so a thread that waits for the lock counts as awake too."""
        if self._state is None:
            return False
        try:
            return os.pread(self._state, 80, 0).rpartition(b")")[2][1:2] == b"R"
        except OSError:
            return False


def _native_id(ident: int) -> int | None:
    for thread in threading.enumerate():
        if thread.ident == ident:
            return thread.native_id
    return None
