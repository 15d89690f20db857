"""Progress on standard error."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TextIO

from whyidle.cli import _output

QUIET_S = 0.5
"""shorter work shows no progress"""
EVERY_S = 0.1
_WIDTH = 30
CLEAR = "\r\x1b[K"


class StatusLine:
    """Lines of results and, on a terminal, a last line that is rewritten."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.alive = sys.stderr.isatty() and not quiet
        self._turn = threading.Lock()

    def tell(self, text: str) -> None:
        """Print a line of results."""
        with self._turn:
            if not self.quiet:
                sys.stderr.write(f"{CLEAR if self.alive else ''}{text}\n")
                sys.stderr.flush()

    def draw(self, text: str) -> None:
        """Rewrite the last line; an empty text removes it."""
        with self._turn:
            if self.alive:
                sys.stderr.write(f"{CLEAR}{text[: _output.output_width() - 1]}")
                sys.stderr.flush()


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
        self._draw_text(f"checking: {name}"[: _output.output_width() - 1])

    def _draw_text(self, text: str) -> None:
        now = time.monotonic()
        if not self._watched or now < self._next:
            return
        self._next = now + EVERY_S
        self._stream.write(f"{CLEAR}{text}")
        self._stream.flush()
        self._shown = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            self._stream.write(CLEAR)
            self._stream.flush()
