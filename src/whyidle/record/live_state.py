"""The current state of a running command, at a small and bounded cost.

Step times are read from the newly appended bytes of the recording. Every few seconds the last half
minute is diagnosed like a finished run, less often if that takes more than ``SHARE`` of a core.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from whyidle.errors import WhyidleError
from whyidle.model.buckets import BUCKETS
from whyidle.model.device_timestamps import MARK
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.live.live_moment import Moment
from whyidle.model.live.telemetry import Reading
from whyidle.model.loader_tables import BATCH, ROW, TAKE
from whyidle.model.number_text import format_duration
from whyidle.model.roles import Role
from whyidle.readers import probe
from whyidle.readers.probe.samples import SAMPLE
from whyidle.record.recording_diagnosis import ENDED, TELEMETRY, diagnose_recording

WINDOW_NS: Final = 30_000_000_000
MOST_RECORDS: Final = 4096  # a few hundred steps; a minute and more of stack samples
_LAYOUTS: Final = {"samples": SAMPLE, "batches": BATCH, "takes": TAKE, "rows": ROW, "device": MARK}
_MAGIC: Final = len(probe.MAGIC)


def copy_recent(recording: Path, into: Path) -> None:
    """Copy the last half minute, at most ``MOST_RECORDS`` records per file."""
    for path in recording.iterdir():
        stem, _, suffix = path.name.partition(".")
        if not stem.isdigit() or path.name.endswith("~") or suffix.startswith("burst-"):
            continue
        if suffix == "spans":
            spans = last_records(path, probe.SPAN, _MAGIC)
            spans = spans[spans["end"] >= spans["end"].max(initial=0) - WINDOW_NS]
            (into / path.name).write_bytes(probe.MAGIC + spans.tobytes())
        elif suffix in _LAYOUTS:
            (into / path.name).write_bytes(last_records(path, _LAYOUTS[suffix]).tobytes())
        else:
            (into / path.name).symlink_to(path.absolute())


def last_records(path: Path, layout: np.dtype[Any], head: int = 0) -> NDArray[Any]:
    """Read the last complete records of a file."""
    with path.open("rb") as file:
        whole = max(0, file.seek(0, 2) - head) // layout.itemsize
        first = max(0, whole - MOST_RECORDS)
        file.seek(head + first * layout.itemsize)
        data = file.read((whole - first) * layout.itemsize)
    return np.frombuffer(data[: len(data) // layout.itemsize * layout.itemsize], dtype=layout)


MOST_BYTES: Final = 4 << 20
"""read at once: minutes of telemetry"""


class RecentTelemetry:
    """The rows of the last half minute. Each byte of the file is read once."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0
        self._notes: dict[bytes, bytes] = {}  # of the recording and its sources, the latest of each
        self._columns: dict[bytes, bytes] = {}
        self._rows: deque[tuple[bytes, int, bytes]] = deque()

    def read_appended(self) -> None:
        """Read the newly appended lines."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                content = file.read(MOST_BYTES)
        except OSError:
            return
        whole = content[: content.rfind(b"\n") + 1]
        self._at += len(whole)
        for line in whole.splitlines(keepends=True):
            self._sort_line(line)
        while self._rows and self._rows[0][1] < self._rows[-1][1] - WINDOW_NS:
            self._rows.popleft()

    def _sort_line(self, line: bytes) -> None:
        if line.startswith(b'{"columns":'):
            self._columns[line[len(b'{"columns":') :].partition(b",")[0]] = line
        elif line.startswith(b"["):
            number, _, rest = line[1:].partition(b",")
            clock = rest.partition(b",")[0].rstrip(b"]\n")
            if clock.isdigit():
                self._rows.append((number, int(clock), line))
        else:
            self._notes[line.partition(b",")[0]] = line  # {"schema":... and {"source":NAME

    def write_to(self, path: Path) -> None:
        """Write the recent rows as a telemetry file. Declarations without a row are forgotten."""
        used = {number for number, _, _ in self._rows}
        self._columns = {n: line for n, line in self._columns.items() if n in used}
        rows = (line for _, _, line in self._rows)
        path.write_bytes(b"".join([*self._notes.values(), *self._columns.values(), *rows]))


SHARE = 0.005  # share of a core for diagnosing
EVERY_S = 2.0
RECENT_NS = 10_000_000_000
"""a process without a step in this time is only shown if no other process takes steps"""
FASTER, SLOWER = 0.8, 1.25  # ratios of step times that count as a change
PATIENT = 20  # backward passes without an optimizer step after which they count as steps


class StepReader:
    """The ends of one process's steps, read as its file grows."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, len(probe.MAGIC)
        self._number: int | None = None
        self._backwards: list[int] = []
        self.count = 0
        self.ends: deque[int] = deque(maxlen=4096)
        self.last_span_ns: int | None = None

    def read_appended(self) -> None:
        """Read the newly appended bytes."""
        size = probe.SPAN.itemsize
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read(1 << 20)
        except OSError:
            return
        spans = np.frombuffer(data[: len(data) // size * size], dtype=probe.SPAN)
        self._at += len(spans) * size
        if not len(spans):
            return
        self.last_span_ns = int(spans["end"].max())
        if self._number is None:
            self._number = self._number_of(Role.OPTIMIZER)
            if self._number is None:
                self._count_backwards(spans)
                return
            self.count = 0
            self.ends.clear()
        found = spans["end"][spans["name"] == self._number]
        self.count += len(found)
        self.ends.extend(found.tolist())

    def _count_backwards(self, spans: NDArray[np.void]) -> None:
        number = self._number_of(Role.BACKWARD)
        if number is not None:
            self._backwards += spans["end"][spans["name"] == number].tolist()
        if len(self._backwards) >= PATIENT or self.count:
            self.count += len(self._backwards)
            self.ends.extend(self._backwards)
            self._backwards.clear()

    def _number_of(self, role: Role) -> int | None:
        return next(iter(probe.numbers_of(self._path.with_suffix(".names"), role)), None)

    def step_lengths(self, since_ns: int) -> NDArray[np.float64]:
        """Lengths of the steps that ended since ``since_ns``, s."""
        ends = np.array([end for end in self.ends if end >= since_ns], dtype=np.int64)
        return np.diff(ends) / 1e9


class LiveWatch:
    """Observes a growing recording; ``diagnose`` diagnoses one process of it, at least ``every_s``
    seconds apart and with at most ``share`` of a core. Several threads may share it."""

    def __init__(
        self,
        recording: Path,
        *,
        every_s: float = EVERY_S,
        share: float = SHARE,
        diagnose: Callable[[Path, str | None], Diagnosis] = diagnose_recording,
    ) -> None:
        self._recording = recording
        self._every_s, self._share, self._make = every_s, share, diagnose
        self._processes: dict[str, StepReader] = {}
        self._telemetry = RecentTelemetry(recording / TELEMETRY)
        self._trend: deque[float] = deque(maxlen=120)  # one a second
        self._second = 0
        self._due = 0.0
        self._diagnosis: Diagnosis | None = None
        self._before: Diagnosis | None = None
        self._changed = ""
        self._cpu: deque[tuple[float, float]] = deque(maxlen=8)
        self._lock = threading.Lock()

    def current_moment(self, reading: Reading) -> Moment:
        """The current state; ``reading``: the latest of the monitor."""
        with self._lock:
            return self._read_moment(reading)

    def _read_moment(self, reading: Reading) -> Moment:
        for pid in probe.trained_processes(self._recording):
            known = self._processes.setdefault(pid, StepReader(self._recording / f"{pid}.spans"))
            known.read_appended()
        lead = self._processes.get(self._lead_process())
        if lead is None or lead.count == 0:
            return Moment(reading=reading, cores=self._cores_used(reading))
        length = self._step_length(lead)
        return Moment(
            steps=lead.count,
            step_s=length,
            trend_s=tuple(self._trend),
            diagnosis=self._diagnosis,
            reading=reading,
            cores=self._cores_used(reading),
            changed=self._changed,
        )

    @property
    def diagnosis(self) -> Diagnosis | None:
        """The latest diagnosis."""
        return self._diagnosis

    def last_activity(self) -> tuple[int | None, int | None]:
        """When the last step ended, and the last recorded call, ns of ``time.perf_counter_ns``."""
        ends = [one.ends[-1] for one in self._processes.values() if one.ends]
        calls = [one.last_span_ns for one in self._processes.values() if one.last_span_ns]
        return max(ends, default=None), max(calls, default=None)

    def _lead_process(self) -> str:
        since = time.perf_counter_ns() - RECENT_NS
        weights = {
            pid: (bool(one.ends) and one.ends[-1] >= since, one.count)
            for pid, one in self._processes.items()
        }
        return max(weights, key=lambda pid: weights[pid], default="")

    def _step_length(self, lead: StepReader) -> float | None:
        now = time.perf_counter_ns()
        lengths = lead.step_lengths(now - 2_000_000_000)
        if not len(lengths):
            lengths = lead.step_lengths(0)[-1:]
        length = float(np.median(lengths)) if len(lengths) else None
        if length is not None and now // 1_000_000_000 != self._second:
            self._second = now // 1_000_000_000
            self._trend.append(length)
        return length

    def _cores_used(self, reading: Reading) -> float | None:
        user, system = reading.get("job_cpu_user_s"), reading.get("job_cpu_system_s")
        if user is None or system is None:
            return None
        if not self._cpu or user + system != self._cpu[-1][1]:
            self._cpu.append((time.monotonic(), user + system))
        (begin, first), (end, last) = self._cpu[0], self._cpu[-1]
        return (last - first) / (end - begin) if end - begin > 0.2 else None

    def refresh_diagnosis(self) -> None:
        """Diagnose again if it is time."""
        with self._lock:
            self._refresh_if_due()

    def _refresh_if_due(self) -> None:
        if time.monotonic() < self._due or not self._processes:
            return
        begin = time.thread_time()
        try:
            with tempfile.TemporaryDirectory(prefix="whyidle-live-") as folder:
                copy_recent(self._recording, Path(folder))
                self._telemetry.read_appended()
                self._telemetry.write_to(Path(folder) / TELEMETRY)
                (Path(folder) / ENDED).symlink_to((self._recording / ENDED).absolute())
                self._diagnosis = self._make(Path(folder), self._lead_process())
        except (WhyidleError, OSError):
            pass  # too early, or a file is being replaced
        else:
            self._remember_change(self._diagnosis)
        first = not self._due  # includes the one-off cost of loading the causes
        spent = 0.0 if first else time.thread_time() - begin
        self._due = time.monotonic() + max(self._every_s, spent / self._share)

    def _remember_change(self, now: Diagnosis) -> None:
        before, self._before = self._before, self._before or now
        if before is None or not (before.steps.p50_s and now.steps.p50_s):
            return
        ratio = now.steps.p50_s / before.steps.p50_s
        if FASTER < ratio < SLOWER:
            return
        self._before = now
        clock = datetime.now().astimezone().strftime("%H:%M:%S")
        moved = {
            b: getattr(now.attribution, b) * now.steps.p50_s
            - getattr(before.attribution, b) * before.steps.p50_s
            for b in BUCKETS
        }
        most = max(moved, key=lambda b: moved[b] * (1 if ratio > 1 else -1))
        self._changed = (
            f"{clock}  steps {format_duration(before.steps.p50_s)} → "
            f"{format_duration(now.steps.p50_s)}, "
            f"{most} {'+' if moved[most] > 0.0 else ''}{format_duration(moved[most])}"
        )
