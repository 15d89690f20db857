"""The live view: a few lines at the bottom of the terminal while a command runs above them.

The command writes directly to its terminal. The live view therefore uses the terminal's scrolling
region (DECSTBM), as package managers do: the region ends above the view, and each drawing is one
write that saves the cursor, draws and restores the cursor. The command's output scrolls above, and
its progress bars, which move the cursor relatively, stay intact. See
``docs/decisions/0019-live-view.md`` for the alternatives.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TextIO

from whyidle.cli import _output

if TYPE_CHECKING:
    from whyidle.record.live_state import LiveWatch
    from whyidle.record.monitor import Monitor

EVERY_S = 0.25
SHARE = 0.004
"""share of a core for reading and drawing; diagnosing has its own budget"""
MIN_ROWS, MIN_COLUMNS = 16, 40
"""a smaller terminal shows no view"""


class Region:
    """The last ``lines`` rows of the terminal behind ``descriptor``. Every call is one write."""

    def __init__(self, descriptor: int, lines: int) -> None:
        self._descriptor, self._lines = descriptor, lines
        self._size: tuple[int, int] | None = None

    def draw_rows(self, rows: Sequence[str], size: tuple[int, int]) -> None:
        """Show rows; make room for them first, and after each change of (columns, rows).

        Sets the region each time, since a command may have reset the terminal.
        """
        begin = ""
        if size != self._size:
            self.clear_rows()
            # IND keeps the column, so that a half-written line of the command stays one
            begin = "\x1bD" * self._lines + f"\x1b[{self._lines}A"
            self._size = size
        top = size[1] - self._lines
        lines = "".join(f"\x1b[{top + 1 + i};1H\x1b[2K{row}\x1b[0m" for i, row in enumerate(rows))
        self._write_text(f"{begin}\x1b7\x1b[1;{top}r{lines}\x1b8")

    def clear_rows(self) -> None:
        """Return the rows to the command. May be called at any time, any number of times."""
        if self._size is None:
            return
        top = self._size[1] - self._lines
        blank = "".join(f"\x1b[{top + 1 + i};1H\x1b[2K" for i in range(self._lines))
        self._size = None
        self._write_text(f"\x1b7\x1b[r{blank}\x1b8")

    def _write_text(self, text: str) -> None:
        try:
            os.write(self._descriptor, text.encode("utf-8", "replace"))
        except OSError:
            self._size = None  # the terminal was closed


def is_wanted(quiet: bool, off: bool, stream: TextIO | None = None) -> bool:
    """Whether standard error is a terminal that can show the live view, and it is not off."""
    out = stream or sys.stderr
    if quiet or off or os.environ.get("TERM", "dumb") in ("dumb", ""):
        return False
    try:
        return out.isatty() and os.name == "posix"
    except ValueError:  # closed
        return False


class Live:
    """Draws the live view on a thread, from the first training step to the end of the command.
    ``follow`` makes the state of the recording, on that thread: its imports take a while."""

    def __init__(
        self, follow: Callable[[], LiveWatch], monitor: Callable[[], Monitor | None]
    ) -> None:
        self._follow, self._monitor = follow, monitor
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, name="whyidle-live", daemon=True)
        self._colours = _output.stream_colours(sys.stderr)
        self._descriptor = sys.stderr.fileno()

    def __enter__(self) -> Live:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(1.0)

    def _run_loop(self) -> None:
        from whyidle.reports._live_panel import LINES

        region = Region(self._descriptor, LINES)
        try:
            self._redraw_region(region)
        except Exception as error:  # a failing view must not end the command
            region.clear_rows()
            print(f"whyidle: no live view: {type(error).__name__}: {error}", file=sys.stderr)
        finally:
            region.clear_rows()

    def _redraw_region(self, region: Region) -> None:
        from whyidle.reports._live_panel import draw_panel

        watch, period = self._follow(), EVERY_S
        while not self._stop.wait(period):
            monitor = self._monitor()
            watch.refresh_diagnosis()
            begin = time.thread_time()
            moment = watch.current_moment(monitor.latest_reading if monitor else {})
            size = self._terminal_size()
            if moment.steps == 0 or size is None:
                if size is None:
                    region.clear_rows()
                continue
            width = min(size[0], 200)
            region.draw_rows(draw_panel(moment, width=width, colours=self._colours), size)
            period = max(EVERY_S, (time.thread_time() - begin) / SHARE)

    def _terminal_size(self) -> tuple[int, int] | None:
        try:
            if os.tcgetpgrp(self._descriptor) != os.getpgrp():
                return None
            columns, rows = os.get_terminal_size(self._descriptor)
        except OSError:
            return None
        return (columns, rows) if columns >= MIN_COLUMNS and rows >= MIN_ROWS else None
