"""A progress line on standard error for long reads."""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType
from typing import TextIO

QUIET_S = 0.5
"""shorter work shows no progress"""
EVERY_S = 0.1
_WIDTH = 30


class Progress:
    """Shows progress when called with (done, total). Silent for the first half second, with
    --quiet, and where the stream is no terminal."""

    def __init__(self, *, quiet: bool, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._shown = False
        self._watched = not quiet and self._stream.isatty()
        self._next = time.monotonic() + QUIET_S

    def __enter__(self) -> Progress:
        return self

    def __call__(self, done: int, total: int) -> None:
        """Draw, at most ten times a second."""
        self._draw_bar("reading", done, total)

    def show_written(self, done: int, total: int) -> None:
        """Show how much is written."""
        self._draw_bar("writing", done, total)

    def _draw_bar(self, what: str, done: int, total: int) -> None:
        share = min(done / total, 1.0) if total > 0 else 0.0
        filled = round(share * _WIDTH)
        bar = "#" * filled + "-" * (_WIDTH - filled)
        self._draw_text(f"{what} [{bar}] {share:4.0%}")

    def show_stage(self, name: str) -> None:
        """Show a stage whose progress is unknown."""
        self._draw_text(f"checking: {name}"[: shutil.get_terminal_size().columns - 1])

    def _draw_text(self, text: str) -> None:
        now = time.monotonic()
        if not self._watched or now < self._next:
            return
        self._next = now + EVERY_S
        self._stream.write(f"\r\x1b[K{text}")
        self._stream.flush()
        self._shown = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
