"""A progress line on standard error, for long reads, where somebody is watching."""

from __future__ import annotations

import sys
import time
from types import TracebackType

QUIET_S = 0.5
"""what takes less needs no progress"""
EVERY_S = 0.1
_WIDTH = 30


class Progress:
    """Call it with (done, total). Silent when quiet, when nobody watches, and for half a second."""

    def __init__(self, *, quiet: bool) -> None:
        self._shown = False
        self._watched = not quiet and sys.stderr.isatty()
        self._next = time.monotonic() + QUIET_S

    def __enter__(self) -> Progress:
        return self

    def __call__(self, done: int, total: int) -> None:
        """Draw, at most ten times a second."""
        now = time.monotonic()
        if not self._watched or now < self._next or total <= 0:
            return
        self._next = now + EVERY_S
        share = min(done / total, 1.0)
        filled = round(share * _WIDTH)
        bar = "#" * filled + "-" * (_WIDTH - filled)
        sys.stderr.write(f"\rreading [{bar}] {share:4.0%}")
        sys.stderr.flush()
        self._shown = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
