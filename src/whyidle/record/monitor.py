"""Reads telemetry sources on a thread while a job runs, and appends the readings to a file.

The format is ``whyidle/telemetry/1`` (``whyidle.model.live.telemetry_lines``), which
``whyidle.machine.sources.replay`` reads. The monitor adds a source, ``monitor``: ``monitor_cpu_s``
(its CPU time), ``monitor_stretch`` (factor by which the period of the most expensive source is
extended, to stay under a hundredth of a core) and ``monitor_failures`` (failed sources). For GPU
drivers, time blocked in a read counts too, since calls of the job may wait for the same lock.
Monitoring a machine without GPUs and a job of 5 processes takes 0.2 % of a core and writes 2.8 kB/s
(``bench/sources.py``).
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeVar, cast

from whyidle import catalog
from whyidle.errors import WhyidleError
from whyidle.model.live import telemetry_lines
from whyidle.model.live.telemetry import (
    OWN_SHARE,
    Absent,
    Reader,
    Reading,
    Source,
    Target,
    split_key,
)

WINDOW_NS = 2_000_000_000
MOST = 1000.0


_OWN = Path("/proc/thread-self/schedstat")


class ClockReading(NamedTuple):
    """Clocks of this thread, ns: elapsed time, CPU time, and time in the run queue."""

    wall_ns: int
    cpu_ns: int
    queued_ns: int

    @classmethod
    def read_clocks(cls) -> ClockReading:
        """Read the clocks; the run queue counts as 0 if the kernel does not report it."""
        try:
            queued = int(_OWN.read_text().split()[1])
        except (OSError, ValueError, IndexError):
            queued = 0
        return cls(time.perf_counter_ns(), time.thread_time_ns(), queued)

    def blocked_ns(self, since: ClockReading) -> int:
        """Time in which the thread neither ran nor was runnable."""
        wall, cpu, queued = (now - then for now, then in zip(self, since, strict=True))
        return max(0, wall - cpu - queued)


class ReadBudget:
    """Compares the cost of reads with wall time over a window, and extends their period.

    Attributes:
        limit: share of the time that reads may take.
        share: expected share; 0 until it is known.
        stretch: factor of the period, 1 or more.
    """

    def __init__(self, limit: float = OWN_SHARE) -> None:
        self.limit = limit
        self.share = 0.0
        self._cpu_ns = self._wall_ns = 0
        self.stretch = 1.0

    def start_accounting(self, cpu_ns: int, wall_ns: int) -> None:
        """Start a window; the cost of opening the source is excluded."""
        self._cpu_ns, self._wall_ns = cpu_ns, wall_ns

    def account_reads(self, cpu_ns: int, wall_ns: int, longest_ns: int) -> bool:
        """Update the stretch at the end of a window; returns whether a window ended.

        The cost is inversely proportional to the stretch, so one correction suffices. The stretch
        is reduced slowly, below half the limit. ``cpu_ns`` is the total cost of all reads so far; a
        window contains several of the ``longest_ns`` periods.
        """
        wall = wall_ns - self._wall_ns
        if wall < max(WINDOW_NS, 4 * longest_ns):
            return False
        share, before = (cpu_ns - self._cpu_ns) / wall, self.stretch
        if share > self.limit:
            self.stretch = min(MOST, self.stretch * 1.1 * share / self.limit)
        elif share < self.limit / 2:
            self.stretch = max(1.0, self.stretch * 0.7)
        self.share = share * before / self.stretch
        self.start_accounting(cpu_ns, wall_ns)
        return True


class AppendOnlyFile:
    """Appends bytes in one call each, so that all lines but the last are complete after a crash.
    After an error, such as a full disk, nothing more is written.

    Attributes:
        size: bytes written.
        broken: the error; empty if there was none.
    """

    def __init__(self, path: Path) -> None:
        self.size = 0
        self.broken = ""
        self._descriptor = -1
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
            self._descriptor = os.open(path, flags, 0o666)
        except OSError as error:
            self.broken = f"{path}: {error.strerror or error}"

    def write(self, content: bytes) -> None:
        """Append; never raises an OSError."""
        if self._descriptor < 0:
            return
        try:
            written = os.write(self._descriptor, content)
            while written < len(content):  # the disk is about to be full
                written += os.write(self._descriptor, content[written:])
        except OSError as error:
            self.broken = error.strerror or str(error)
            self.close()
        else:
            self.size += len(content)

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


Result = TypeVar("Result")

STOP_S = 2.0  # time limit for the last reads, since a driver may hang
DOUBLING_BYTES = 32 << 20
"""file size after which the period doubles, so that a run of days fits on a disk"""
JITTER = 0.1
"""relative variation of the period, so that reads do not synchronise with training steps"""


def live_sources() -> dict[str, Source]:
    """All sources, by name."""
    return {name: cast("Source", module) for name, module in catalog.load_sources().items()}


class _OpenedSource:
    def __init__(self, name: str, reader: Reader, period_s: float, *, driver: bool) -> None:
        self.name, self.reader = name, reader
        self.driver = driver
        self.budget = ReadBudget()
        self.taken_ns = 0
        self.blocked_ns: list[int] = []  # blocked time of each read since the last accounting
        self.period_ns = int(period_s * 1e9)
        self.due_ns = 0
        self.reads = 0

    def total_blocked_ns(self) -> int:
        """Blocked time by the median read: creating a CUDA context may block one read for long."""
        return round(len(self.blocked_ns) * median(self.blocked_ns or [0]))


class Monitor:
    """Monitors a target until it is stopped, by default with all live sources and each source's own
    period. Never raises into the caller."""

    def __init__(
        self,
        target: Target,
        path: Path,
        sources: Mapping[str, Source] | None = None,
        period_s: float | None = None,
    ) -> None:
        self._target, self._path = target, path
        self._period_s = period_s
        self._given = sources
        self._sources: Mapping[str, Source] = {}
        self._columns = telemetry_lines.TelemetryWriter()
        self._watched: list[_OpenedSource] = []
        self._latest: dict[str, Reading] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, name="whyidle-monitor", daemon=True)
        self._random = random.Random(0)  # spreads reads, keeps no secret
        self._cpu_ns = 0
        self.absent: dict[str, Absent] = {}
        self.broken = ""

    @property
    def latest_reading(self) -> Reading:
        """The latest value of every key."""
        return {name: one for values in list(self._latest.values()) for name, one in values.items()}

    @property
    def cpu_s(self) -> float:
        """CPU time used so far."""
        return self._cpu_ns / 1e9

    @property
    def period_stretch(self) -> float:
        """Largest factor by which a source's period is extended."""
        return max((one.budget.stretch for one in self._watched), default=1.0)

    def start_thread(self) -> None:
        """Start; sources are opened on the thread, because a driver may be slow."""
        try:
            self._thread.start()
        except RuntimeError as error:  # no thread available
            self.broken = str(error)

    def stop_thread(self) -> bool:
        """Read all sources a last time and stop; False on a timeout."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_S)
        return not self._thread.is_alive()

    def __enter__(self) -> Monitor:
        self.start_thread()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_thread()

    def _run_loop(self) -> None:
        file = self._file = AppendOnlyFile(self._path)
        if (
            self._contain_call("monitor", self._read_due_sources) is None
            and "monitor" in self.absent
        ):
            self.broken = self.absent["monitor"].reason
        self.broken = file.broken or self.broken
        file.close()

    def _read_due_sources(self) -> bool:
        self._file.write(telemetry_lines.header_line(time.perf_counter_ns(), time.time_ns()))
        self._sources = live_sources() if self._given is None else dict(self._given)
        opened = (self._open_source(name, source) for name, source in self._sources.items())
        watched = self._watched = [one for one in opened if one is not None]
        for one in watched:
            one.budget.start_accounting(0, time.perf_counter_ns())
        while watched:
            due_ns = min(one.due_ns for one in watched)
            if self._stop.wait(max(0.0, (due_ns - time.perf_counter_ns()) / 1e9)):
                break
            now = time.perf_counter_ns()
            for one in [one for one in watched if one.due_ns <= now]:
                if self._read_source(one):
                    one.due_ns = now + self._period_ns(one)
                else:
                    watched.remove(one)
            self._account_cost(watched)
        for one in watched:
            if self._read_source(one):
                self._write_description(one)
                self._close_source(one)
        self._own_row()
        return True

    def _period_ns(self, one: _OpenedSource) -> int:
        doublings = self._file.size // DOUBLING_BYTES
        slower = one.budget.stretch * 2.0**doublings
        return int(one.period_ns * slower * self._random.uniform(1 - JITTER, 1 + JITTER))

    def _account_cost(self, watched: list[_OpenedSource]) -> None:
        self._cpu_ns = time.thread_time_ns()
        now = time.perf_counter_ns()
        ended = [self._looked_at(one, watched, now) for one in watched]
        if any(ended):
            self._own_row()

    def _looked_at(self, one: _OpenedSource, watched: list[_OpenedSource], now: int) -> bool:
        others = sum(each.budget.share for each in watched if each is not one)
        one.budget.limit = max(OWN_SHARE / len(watched), OWN_SHARE - others)
        if not one.budget.account_reads(
            one.taken_ns + one.total_blocked_ns(), now, self._period_ns(one)
        ):
            return False
        one.taken_ns += one.total_blocked_ns()
        one.blocked_ns.clear()
        return True

    def _contain_call(self, name: str, call: Callable[[], Result]) -> Result | None:
        """Contain errors of a plug-in: it loses its signals, and the job continues."""
        try:
            return call()
        except WhyidleError as error:
            self._give_up(name, Absent(error.why or error.what, error.hint))
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            self._give_up(name, Absent(why, "please report this error of whyidle"))
        return None

    def _open_source(self, name: str, source: Source) -> _OpenedSource | None:
        reader = self._contain_call(name, lambda: source.open(self._target))
        period_s = self._period_s or source.PERIOD_S
        driver = any(meter.subject.startswith("gpu") for meter in source.SIGNALS)
        return None if reader is None else _OpenedSource(name, reader, period_s, driver=driver)

    def _read_source(self, one: _OpenedSource) -> bool:
        began = ClockReading.read_clocks()
        reading = self._contain_call(one.name, one.reader.read)
        if one.driver:
            one.blocked_ns.append(ClockReading.read_clocks().blocked_ns(began))
        if reading is None:
            self._close_source(one)
            return False
        self._file.write(self._columns.row_lines(one.name, began.wall_ns, reading))
        before = self._latest.get(one.name, {})
        kept = {name: value for name, value in before.items() if "pid" not in split_key(name)[1]}
        self._latest[one.name] = {**kept, **reading}
        one.reads += 1
        if one.reads == 1:
            self._write_description(one)
        one.taken_ns += time.thread_time_ns() - began.cpu_ns
        return True

    def _write_description(self, one: _OpenedSource) -> None:
        description = self._contain_call(one.name, lambda: (one.reader.facts, one.reader.missing))
        if description is not None:
            self._file.write(telemetry_lines.source_line(one.name, *description))

    def _close_source(self, one: _OpenedSource) -> None:
        self._contain_call(one.name, one.reader.close)

    def _give_up(self, name: str, why: Absent) -> None:
        if name in self.absent:
            return
        self.absent[name] = why
        offered = self._sources[name].SIGNALS if name in self._sources else ()
        lacks = dict.fromkeys((meter.id for meter in offered), why)
        self._file.write(telemetry_lines.source_line(name, {}, lacks))

    def _own_row(self) -> None:
        self._cpu_ns = time.thread_time_ns()
        row: Reading = {
            "monitor_cpu_s": self._cpu_ns / 1e9,
            "monitor_stretch": self.period_stretch,
            "monitor_failures": len(self.absent),
        }
        self._file.write(self._columns.row_lines("monitor", time.perf_counter_ns(), row))
