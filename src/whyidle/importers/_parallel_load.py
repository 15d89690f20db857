"""Parallel reading of several recordings, in helper processes where that pays. Helpers are plain
subprocesses with frames over pipes: they need no ``__main__`` guard in the caller's script, inherit
no threads or locks, and end with their pipe. Columns return as raw buffers next to the pickle, so
they are copied once and never become objects."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from whyidle.errors import BrokenTraceError, InputError
from whyidle.importers import kineto
from whyidle.importers._recording_search import Origin, find_importer
from whyidle.importers._worker_ipc import Request, receive_value, send_value
from whyidle.model.plugin import Importer
from whyidle.model.timeline import Timeline

WORTH_BYTES = 100 << 20
"""text that one process reads in about the start-up time of a helper"""
_SHRINK = 15
"""traces shrink 10 to 30 times"""

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
) -> list[Timeline]:
    """Read recordings in the given order, with as many ``helpers`` (processes) as pay if None.
    Unreadable ones are left out and noted in the first, unless none can be read. ``importers`` of
    other packages run in this process; ``progress`` is called with (bytes read, total bytes).

    Raises:
        InputError: none could be read; the error of the first.
    """
    jobs = [
        _LoadJob(i, origin, _file_size(origin), find_importer(*origin, importers))
        for i, origin in enumerate(origins)
    ]
    own = [job for job in jobs if job.foreign is None]
    waiting = deque(sorted(own, key=lambda job: -job.size))
    meter = _LoadMeter(progress, sum(job.size for job in jobs))
    results: dict[int, Read] = {}
    count = _helper_count(own) if helpers is None else helpers
    started = [_HelperProcess(waiting, results, meter) for _ in range(count)]
    try:
        while waiting:
            job = _next_job(waiting)
            if job is not None:
                results[job.number] = _load_here(job, meter)
        for helper in started:
            helper.join_process()
        for job in jobs:  # a helper that died leaves its job undone
            if job.number not in results:
                results[job.number] = _load_here(job, meter)
    finally:
        waiting.clear()
        for helper in started:
            helper.kill_process()
    return _gather_timelines([results[job.number] for job in jobs])


def _gather_timelines(results: list[Read]) -> list[Timeline]:
    good = [result for result in results if isinstance(result, Timeline)]
    failed = [result for result in results if isinstance(result, InputError)]
    if failed and not good:
        raise failed[0]
    if failed:
        source = good[0].source
        notes = [f"not read: {error.what} {error.why}".strip() for error in failed]
        good[0] = replace(good[0], source=replace(source, notes=(*source.notes, *notes)))
    return good


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
        if job.foreign is None:
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
    packed = (job.origin[0].suffix.lower() in (".gz", ".zip") for job in jobs)
    texts = [job.size * (_SHRINK if small else 1) for job, small in zip(jobs, packed, strict=True)]
    shared = sum(texts) - max(texts, default=0)
    return min(_usable_cores(), len(jobs)) - 1 if shared >= WORTH_BYTES // 2 else 0


def _usable_cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


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


_START = (
    "import sys; sys.path[:] = {path!r}; "
    "from whyidle.importers import _worker_ipc; _worker_ipc.serve_requests()"
)


class _HelperProcess:
    def __init__(
        self, waiting: deque[_LoadJob], results: dict[int, Read], meter: _LoadMeter
    ) -> None:
        self._waiting, self._results, self._meter = waiting, results, meter
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._feed_jobs, daemon=True)
        self._thread.start()

    def _feed_jobs(self) -> None:
        """Send jobs until there are none; a process that dies leaves its job undone."""
        try:
            self._process = process = subprocess.Popen(
                [sys.executable, "-c", _START.format(path=sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            assert process.stdin is not None
            assert process.stdout is not None
            while (job := _next_job(self._waiting)) is not None:
                send_value(process.stdin, Request(str(job.origin[0]), job.origin[1]))
                answer = receive_value(process.stdout)
                if isinstance(answer, Timeline | InputError):
                    self._results[job.number] = answer
                    self._meter.report_progress(job, job.size)
        except (OSError, EOFError, ValueError):
            return

    def join_process(self) -> None:
        self._thread.join()

    def kill_process(self) -> None:
        """End the process; its thread then reaches the end of the pipe."""
        process = self._process
        if process is None:
            return
        process.kill()
        self._thread.join(timeout=5)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.wait()
