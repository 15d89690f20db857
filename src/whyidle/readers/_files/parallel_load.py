"""Parallel reading of recordings, in helper processes where that pays: several files, a file each,
and a single large one range by range. Columns return as raw buffers next to the pickle, so they are
copied once and never become objects."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from whyidle.errors import BrokenTraceError, InputError
from whyidle.model.plugin import Importer
from whyidle.model.timeline import Timeline
from whyidle.readers import kineto
from whyidle.readers._files.helper_process import FAULTS as PROCESS_FAULTS
from whyidle.readers._files.helper_process import HelperProcess, text_bytes, usable_cores
from whyidle.readers._files.range_reading import RangeReading, open_ranges
from whyidle.readers._files.recording_search import Origin, find_importer, own_importers
from whyidle.readers._files.worker_ipc import Request

WORTH_BYTES = 100 << 20
"""text that one process reads in about the start-up time of a helper"""
FAULTS: tuple[type[Exception], ...] = (Exception,)
"""any exception of another package's importer"""
Progress = Callable[[int, int], None]
Read = Timeline | InputError


class _LoadJob(NamedTuple):
    number: int
    origin: Origin
    size: int
    foreign: Importer | None = None
    """another package's importer that reads it; None: our own"""


def load_all(
    origins: Sequence[Origin],
    progress: Progress | None = None,
    importers: Sequence[Importer] = (),
    helpers: int | None = None,
    reading: RangeReading | None = None,
) -> list[Timeline]:
    """Read recordings in the given order, with as many ``helpers`` (processes) as pay if None.
    Unreadable ones are left out and noted in the first, unless none can be read. ``importers`` of
    other packages run in this process; ``progress`` is called with (bytes read, total bytes);
    ``reading`` is of a file that may be among them, and has begun.

    Raises:
        InputError: none could be read; the error of the first.
    """
    jobs = [
        _LoadJob(i, origin, _file_size(origin), find_importer(*origin, importers))
        for i, origin in enumerate(origins)
    ]
    own = [job for job in jobs if job.foreign is None]
    if len(own) == len(jobs) == 1:
        return [_load_large(own[0], progress, helpers, reading)]
    waiting = deque(sorted(own, key=lambda job: -job.size))
    meter = _LoadMeter(progress, sum(job.size for job in jobs))
    results: dict[int, Read] = {}
    count = _helper_count(own) if helpers is None else helpers
    started = [_Helper(waiting, results, meter) for _ in range(count)]
    try:
        while waiting:
            job = _next_job(waiting)
            if job is not None:
                results[job.number] = _load_here(job, meter)
        for helper in started:
            helper.thread.join()
        for job in jobs:  # a helper that died leaves its job undone
            if job.number not in results:
                results[job.number] = _load_here(job, meter)
    finally:
        waiting.clear()
        for helper in started:
            helper.kill_process()
    return _gather_timelines([results[job.number] for job in jobs])


def _load_large(
    job: _LoadJob, progress: Progress | None, helpers: int | None, reading: RangeReading | None
) -> Timeline:
    """Read one file, range by range in several processes if it is large enough."""
    path, member = job.origin
    if reading is None or reading.origin != job.origin:
        reading = open_ranges(path, member, job.size, helpers)
    try:
        return kineto.load(path, member=member, progress=progress, reading=reading)
    finally:
        if reading is not None:
            reading.close()


def _gather_timelines(results: list[Read]) -> list[Timeline]:
    read = [result for result in results if isinstance(result, Timeline)]
    good = [replace(one, others=()) for timeline in read for one in (timeline, *timeline.others)]
    failed = [result for result in results if isinstance(result, InputError)]
    if failed and not good:
        raise failed[0]
    if failed:
        good[0] = note_failures(good[0], failed)
    return good


def note_failures(timeline: Timeline, failed: Sequence[InputError]) -> Timeline:
    """Return a recording with a note on each that was not read."""
    source = timeline.source
    notes = [f"not read: {error.what} {error.why}".strip() for error in failed]
    return replace(timeline, source=replace(source, notes=(*source.notes, *notes)))


def _next_job(waiting: deque[_LoadJob]) -> _LoadJob | None:
    try:
        return waiting.popleft()
    except IndexError:
        return None


def _load_here(job: _LoadJob, meter: _LoadMeter) -> Read:
    path, member = job.origin
    try:
        load = (job.foreign or kineto).load
        timeline = load(
            path, member=member, progress=lambda done, _: meter.report_progress(job, done)
        )
    except InputError as error:
        return error
    except FAULTS as error:
        if job.foreign is None or job.foreign in own_importers():
            raise
        return BrokenTraceError(
            f"The plug-in {job.foreign.__name__} failed to read {path}.",
            why=f"{type(error).__name__}: {error}.",
            hint="Update the package, or report it to its authors.",
        )
    finally:
        meter.report_progress(job, job.size)
    return timeline


def _file_size(origin: Origin) -> int:
    try:
        return origin[0].stat().st_size
    except OSError:
        return 0


def _helper_count(jobs: list[_LoadJob]) -> int:
    texts = [text_bytes(job.origin[0], job.size) for job in jobs]
    shared = sum(texts) - max(texts, default=0)
    return min(usable_cores(), len(jobs)) - 1 if shared >= WORTH_BYTES // 2 else 0


class _LoadMeter:
    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total = progress, total
        self._done: dict[int, int] = {}
        self._lock = threading.Lock()

    def report_progress(self, job: _LoadJob, done: int) -> None:
        if self._progress is None:
            return
        with self._lock:
            self._done[job.number] = min(done, job.size)
            self._progress(sum(self._done.values()), self._total)


class _Helper:
    """A helper process and the thread that sends it jobs."""

    def __init__(
        self, waiting: deque[_LoadJob], results: dict[int, Read], meter: _LoadMeter
    ) -> None:
        self._waiting, self._results, self._meter = waiting, results, meter
        self._process: HelperProcess | None = None
        self.thread = threading.Thread(target=self._feed_jobs, daemon=True)
        self.thread.start()

    def _feed_jobs(self) -> None:
        """Send jobs until there are none; a process that dies leaves its job undone."""
        try:
            self._process = process = HelperProcess()
            while (job := _next_job(self._waiting)) is not None:
                answer = process.ask(Request(str(job.origin[0]), job.origin[1]))
                if isinstance(answer, Timeline | InputError):
                    self._results[job.number] = answer
                    self._meter.report_progress(job, job.size)
        except PROCESS_FAULTS:
            return

    def kill_process(self) -> None:
        """End the process; its thread then reaches the end of the pipe."""
        if self._process is None:
            return
        self._process.kill()
        self.thread.join(timeout=5)
        self._process.close()
