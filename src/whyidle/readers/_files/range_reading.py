"""Reading of one large trace in several processes, range by range. Helpers begin as soon as they
have started, which may be long before this process has imported what a diagnosis needs."""

from __future__ import annotations

import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyidle.readers._files.helper_process import FAULTS, HelperProcess, text_bytes, usable_cores
from whyidle.readers._files.worker_ipc import Request

if TYPE_CHECKING:
    from whyidle.readers._events.text_ranges import RangeEvents

WORTH_BYTES = 24 << 20
"""text that one process reads in about the start-up time of a helper"""
Accept = Callable[["RangeEvents"], None]


class RangeReading:
    """The reading of one file by ``helpers`` and by whoever calls ``finish``."""

    def __init__(self, path: Path, member: str | None, helpers: int) -> None:
        self.origin = path, member
        self._lock = threading.Lock()
        self._next, self._stop = 0, False
        self._count: int | None = None  # of ranges, when the end was seen
        self._read: dict[int, RangeEvents] = {}
        self._helpers: list[HelperProcess] = []
        self._threads = [threading.Thread(target=self._feed, daemon=True) for _ in range(helpers)]
        for thread in self._threads:
            thread.start()

    def _feed(self) -> None:
        """Let one helper read ranges until there are none; if it dies, one stays unread."""
        try:
            helper = HelperProcess()
        except OSError:
            return
        with self._lock:
            self._helpers.append(helper)
        try:
            while (number := self._take_number()) is not None:
                self._keep(number, helper.ask(Request(str(self.origin[0]), self.origin[1], number)))
        except FAULTS:
            return
        finally:
            helper.kill()
            helper.close()

    def _take_number(self) -> int | None:
        with self._lock:
            if self._stop or self._next >= (self._next + 1 if self._count is None else self._count):
                return None
            self._next += 1
            return self._next - 1

    def _keep(self, number: int, read: Any) -> None:
        from whyidle.readers._events.text_ranges import RangeEvents  # noqa: PLC0415  # helpers first

        with self._lock:
            if isinstance(read, RangeEvents):
                self._read[number] = read
                number += 1
            if not isinstance(read, RangeEvents) or read.is_last:
                self._count = number if self._count is None else min(self._count, number)
            if isinstance(read, RangeEvents) and not read.is_whole:
                self._stop = True

    def finish(self, accept: Accept) -> bool:
        """Read what is left, and pass all ranges on in order. Return whether they are the whole
        file; if not, it has to be read in one, and what was passed on is void.

        Raises:
            InputError: the file cannot be opened.
        """
        from whyidle.readers._events.text_ranges import RangeReader  # noqa: PLC0415  # see _keep

        done = end = 0
        reader = RangeReader(*self.origin)
        try:
            while (number := self._take_number()) is not None:
                self._keep(number, reader.read_range(number))
                done, end = self._pass_on(done, end, accept)
        finally:
            reader.close()
        for thread in self._threads:
            thread.join()
        done, _ = self._pass_on(done, end, accept)
        return done == self._count and not self._stop

    def _pass_on(self, done: int, end: int, accept: Accept) -> tuple[int, int]:
        """Pass on the ranges that follow those passed on; how many are, and where they end."""
        while (read := self._read.pop(done, None)) is not None:
            self._stop |= not read.is_whole or read.begin != end
            if self._stop:
                break
            accept(read)
            done, end = done + 1, read.end
        return done, end

    def close(self) -> None:
        """End the helpers."""
        with self._lock:
            self._stop = True
            for helper in self._helpers:
                helper.kill()
        for thread in self._threads:
            thread.join(timeout=5)


def start_reading(paths: Sequence[Path], helpers: int | None = None) -> RangeReading | None:
    """Start to read a single large trace; None for anything else, or if one process is enough."""
    try:
        status = paths[0].stat()
    except OSError:
        return None
    is_trace = paths[0].name.lower().endswith((".json", ".json.gz"))
    if len(paths) > 1 or not stat.S_ISREG(status.st_mode) or not is_trace:
        return None
    return open_ranges(paths[0], None, status.st_size, helpers)


def open_ranges(
    path: Path, member: str | None, size: int, helpers: int | None = None
) -> RangeReading | None:
    """Start to read a trace of ``size`` bytes if it is large enough for helpers."""
    if helpers is None:
        helpers = min(usable_cores() - 1, text_bytes(path, size) // WORTH_BYTES)
    return RangeReading(path, member, helpers) if helpers > 0 else None
