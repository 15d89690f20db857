"""Buffers spans and samples in memory and appends them to files.

The hot path puts three numbers into a queue. The sampler's thread empties it at intervals and
appends fixed-size records to ``PID.spans`` and ``PID.samples``; written records survive SIGKILL.
Texts go to ``PID.names`` (a role, a tab and a label, see ``wire``) and ``PID.stacks``, one per
line, in order of their number, before the first record that uses them. A full disk or a folder that
vanishes ends the recording and nothing else; ``DiskQuota`` ends it before the disk is full.
"""

from __future__ import annotations

import json
import os
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import starmap
from operator import itemgetter
from typing import Any

from .. import wire
from ..wire import MAGIC, SAMPLE, SPAN, ProcessFacts
from . import fault_containment

APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
"""flags for ``os.open``: file objects release the interpreter lock twice as often"""
FLUSH_S = 0.25
MOST_WAITING = 1 << 17
"""most spans in memory (15 MB), and most rows of any other kind. Beyond it the oldest spans are
dropped, as happens in a process that never trains and so never writes"""
MOST_SHORT = 3 << 15
"""most numbers of short spans in memory (4 MB): those of 10,000 steps"""
MOST_STACKS = 20_000
"""most stacks, which stay in memory as long as the job runs: texts of one or two kilobytes"""
MOST_EARLY = 1 << 12
"""most stack samples of a process that does not report yet; they come ten times a second"""

clock_ns = time.perf_counter_ns
"""the clock of every record, ns; shared by all processes of a host"""

RUNTIME, OP, PYTHON, ANNOTATION, OVERHEAD = range(5)
"""kinds of span, as whyidle.model.timeline.HostKind numbers them"""
STEP = 5
"""kind of an optimizer's step: written as two spans, an annotation and the operators inside it"""
OPTIMIZER = "whyidle::optimizer"
MOST_BYTES = 1 << 30
"""most bytes of one process: most of a day of steps of 10 ms"""
LEFT_BYTES = 1 << 30
"""free bytes on the disk below which the recording ends"""
EVERY_BYTES = 1 << 24
"""bytes written between checks of the free space; smaller recordings are never ended"""


class QuotaReachedError(Exception):
    """The recording has reached its quota."""


class DiskQuota:
    """The disk space that one process's recording has used."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.written = 0
        self._next = EVERY_BYTES

    def check_quota(self) -> None:
        """Check the quota after a write.

        Raises:
            QuotaReachedError: it is; with the reason.
        """
        if self.written >= MOST_BYTES:
            raise QuotaReachedError(f"{MOST_BYTES >> 20:,} MiB were recorded of one process")
        if self.written >= self._next:
            self._next = self.written + EVERY_BYTES
            disk = os.statvfs(self.folder)
            left = disk.f_bavail * disk.f_frsize
            if left < LEFT_BYTES and disk.f_blocks:  # an object store may report no sizes
                raise QuotaReachedError(f"the disk of the recording has {left >> 20:,} MiB left")


def name_tag(number: int, kind: int) -> int:
    """Combine the number of a name and a kind. Negative, so that it differs from any time."""
    return -1 - (number << 3 | kind)


Sample = tuple[int, int, int, int, int]
Short = tuple[int, int, int]
"""a span of the home thread: tag, begin and end"""


class Recorder:
    """One process's recording. ``add`` takes one tuple as in ``SPAN``; the hot path extends
    ``short`` by a tuple as in ``Short``, which allocates less memory."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.short: deque[int] = deque(maxlen=MOST_SHORT)
        self.heard: Callable[[list[Short]], None] = _ignore_spans
        """receives the short spans, on the thread that writes them"""
        self.ended: Callable[[], None] = _ignore_end
        """called when the recording ends"""
        self._reset_after_fork()
        os.register_at_fork(after_in_child=self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        self.facts: ProcessFacts = {}
        self.presence: ProcessFacts = {}
        """facts of a process that has not trained; empty until it is described"""
        self.documents: dict[str, Any] = {}
        self.tables: dict[str, tuple[struct.Struct, list[Any]]] = {}
        self.spans: deque[tuple[int, int, int, int, int]] = deque(maxlen=MOST_WAITING)
        self.samples: list[Sample] = []
        self.add = self.spans.append
        self.short.clear()
        self.home = 0
        """the thread of the short spans"""
        self.names: dict[str, int] = {}
        self.stacks: dict[str, int] = {}
        self.dropped = 0
        """number of flushes before which spans were dropped"""
        self.broken = False
        self.room = DiskQuota(self.folder)
        self._key = str(os.getpid())
        self._written = {"names": 0, "stacks": 0}
        self._begun = self._keyed = False
        self._told: dict[str, Any] = {}
        self._rows = 0
        self._lock, self._taking = threading.Lock(), threading.Lock()
        self._naming = threading.Lock()

    def name_number(self, label: str, role: str = wire.NO_ROLE) -> int:
        """Return the number of a name; the same name always has the same number."""
        name = wire.join_name(role, label)
        number = self.names.get(name)
        return self._assign_number(self.names, name) if number is None else number

    def stack_number(self, text: str) -> int:
        """Return the number of a stack, innermost frame first (``file(line): function;...``);
        -1 once ``MOST_STACKS`` are stored."""
        number = self.stacks.get(text, -1)
        if number < 0 and len(self.stacks) < MOST_STACKS:
            number = self._assign_number(self.stacks, text)
        return number

    def _assign_number(self, numbered: dict[str, int], text: str) -> int:
        with self._naming:  # two threads must not give one number to two texts
            return numbered.setdefault(text, len(numbered))

    def add_row(self, suffix: str, layout: struct.Struct, row: tuple[int, ...]) -> None:
        """Add a record of another kind, for ``PID.suffix``."""
        if self._rows < MOST_WAITING and not self.broken:
            table = self.tables.get(suffix)
            if table is None:
                table = self.tables.setdefault(suffix, (layout, []))
            table[1].append(row)
            self._rows += 1

    def add_sample(self, row: Sample) -> None:
        """Add a stack sample, as in ``SAMPLE``, unless the stack has no number."""
        if row[3] >= 0 and len(self.samples) < MOST_WAITING and not self.broken:
            self.samples.append(row)

    def live_in(self, thread: int) -> None:
        """Make ``thread`` the one whose spans are short from now on."""
        with self._taking:
            if thread != self.home:
                self.spans.extend(_expand_spans(self._taken_short(), self.home))
                self.home = thread

    def _taken_short(self) -> list[Short]:
        return _unpack_spans([self.short.popleft() for _ in range(len(self.short))])

    def flush_records(self) -> None:
        """Write all buffered records. May be called from any thread, at any time."""
        with self._lock:
            with self._taking:
                short, home = self._taken_short(), self.home
            self.heard(short)
            spans, self.spans = self.spans, deque(maxlen=0 if self.broken else MOST_WAITING)
            self.add = self.spans.append
            samples = self._take_samples()
            tables, self.tables = self.tables, {}
            self._rows = 0
            if self.broken:
                return
            try:
                self._write_spans(sorted([*spans, *_expand_spans(short, home)], key=_END))
                self._write_rest(samples, tables)
                self.room.check_quota()
            except (OSError, QuotaReachedError) as error:
                where = (
                    wire.QUOTA_REACHED
                    if isinstance(error, QuotaReachedError)
                    else wire.WRITE_FAILED
                )
                fault_containment.note_fault(self.folder, where, error)
                self._drop_records()
                if where == wire.QUOTA_REACHED and self.facts:
                    with suppress(OSError):  # no space for that either
                        self._replace_document("facts.json", {**self.facts, "enough": str(error)})
            self.dropped += len(spans) == MOST_WAITING or 3 * len(short) >= MOST_SHORT - 3

    @property
    def _is_reporting(self) -> bool:
        return bool(self.facts or self.presence or "worker.json" in self.documents)

    def _take_samples(self) -> list[Any]:
        """Take the samples to write; those of the start-up wait until the process reports."""
        if not self._is_reporting and len(self.samples) < MOST_EARLY and not self.broken:
            return []
        samples, self.samples = self.samples, []
        return samples

    def end_recording(self) -> None:
        """Stop recording and free the buffers."""
        with self._lock:
            self._drop_records()

    def _drop_records(self) -> None:
        self.broken = True
        self.spans = deque(maxlen=0)
        self.add = self.spans.append
        self.ended()
        self.short.clear()
        self.tables, self.samples = {}, []

    def _write_spans(self, spans: list[Any]) -> None:
        if "worker.json" in self.documents or not (self.facts or spans):
            return
        self._choose_key()
        work = self.name_number(OPTIMIZER, wire.OPTIMIZER_OPERATORS)
        self._write_texts("names", self.names)
        magic = b"" if self._begun else MAGIC
        self._append_bytes("spans", magic + b"".join(starmap(SPAN.pack, _pack_rows(spans, work))))
        self._begun = True

    def _write_rest(self, samples: list[Any], tables: dict[str, Any]) -> None:
        if not self._is_reporting:
            return  # not known to train, or to load for a process that trains
        if "worker.json" not in self.documents:
            self._choose_key()
        self._write_texts("stacks", self.stacks)
        self._append_bytes("samples", b"".join(SAMPLE.pack(*sample) for sample in samples))
        for suffix, (layout, rows) in tables.items():
            self._append_bytes(suffix, b"".join(layout.pack(*row) for row in rows))
        own = (("facts.json", self.facts), ("seen.json", self.presence))
        for suffix, document in (*own, *self.documents.items()):
            if document and self._told.get(suffix) != document:
                self._told[suffix] = dict(document)
                self._replace_document(suffix, document)

    def _replace_document(self, suffix: str, document: Any) -> None:
        place = self.file_path(suffix)
        text = json.dumps(document)  # runs in C; ``dump`` is Python code that the job waits for
        with open(place + "~", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(place + "~", place)

    def _choose_key(self) -> None:
        """Choose the prefix of the file names. ``os.execv`` runs another program under the same id,
        which must not continue these files."""
        if self._keyed:
            return
        self._keyed = True
        turn = 1
        while os.path.exists(self.file_path("spans")) or os.path.exists(self.file_path("samples")):
            turn += 1
            self._key = f"{os.getpid()}-{turn}"

    def _write_texts(self, suffix: str, numbered: dict[str, int]) -> None:
        done, texts = self._written[suffix], list(numbered)
        if len(texts) > done:
            lines = "".join(text.replace("\n", " ") + "\n" for text in texts[done:])
            self._append_bytes(suffix, lines.encode("utf-8", "replace"))
            self._written[suffix] = len(texts)

    def _append_bytes(self, suffix: str, data: bytes) -> None:
        if data:
            file = os.open(self.file_path(suffix), APPENDING, 0o666)
            try:
                while data:
                    written = os.write(file, data)
                    self.room.written += written
                    data = data[written:]
            finally:
                os.close(file)

    def file_path(self, suffix: str) -> str:
        """Return the path of one of this process's files."""
        return os.path.join(self.folder, f"{self._key}.{suffix}")


_END = itemgetter(1)


def _ignore_spans(spans: list[Short]) -> None:
    """Default of ``Recorder.heard``."""


def _ignore_end() -> None:
    """Default of ``Recorder.ended``."""


def _unpack_spans(numbers: list[int]) -> list[Short]:
    """Group numbers into spans of three. Skips the rest of a span that was stored in part, because
    the queue was full or memory ran out."""
    tags, begins, ends = numbers[::3], numbers[1::3], numbers[2::3]
    if len(numbers) % 3 == 0 and max(tags, default=-1) < 0 <= min(begins + ends, default=0):
        return list(zip(tags, begins, ends, strict=True))
    spans, at = [], 0
    while at + 2 < len(numbers):
        what, begin, end = numbers[at : at + 3]
        whole = what < 0 <= min(begin, end)
        if whole:
            spans.append((what, begin, end))
        at += 3 if whole else 1
    return spans


def _expand_spans(spans: list[Short], thread: int) -> list[tuple[int, int, int, int, int]]:
    """Convert short spans to the form that ``Recorder.add`` takes."""
    return [(begin, end, thread, -1 - tag >> 3, -1 - tag & 7) for tag, begin, end in spans]


def _pack_rows(spans: list[Any], work: int) -> list[Any]:
    """Make rows as ``SPAN`` packs them; ``work`` is the name number of an optimizer's operators.
    This holds the interpreter lock, so no function is called per row."""
    rows = []
    for span in spans:
        if span[4] == STEP:
            begin, end, thread, name, _ = span
            rows.append((begin, end, thread, work, OP))
            rows.append((begin, end, thread, name, ANNOTATION))
        else:
            rows.append(span)
    return rows


def process_start_ns() -> int | None:
    """When this process began, by the clock of the records, to 10 ms; None where it is unknown."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rsplit(b")", 1)[1].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
    return clock_ns() - int(age * 1e9)
