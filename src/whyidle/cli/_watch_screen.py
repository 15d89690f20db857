"""The screen of ``whyidle watch``: the terminal's alternate screen, and its keys."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from whyidle.reports._watch_table import WatchView

if TYPE_CHECKING:
    from whyidle.model.documents.watch_document import WatchedMachine
    from whyidle.model.live.alert import Delivery


def press_keys(view: WatchView, typed: bytes, machine: WatchedMachine | None) -> bool:
    """Act on what was typed: digits are the numbers of the table's first column; False if it ends
    the watch."""
    known = {gpu.gpu for gpu in machine.gpus} if machine is not None else set()
    for key in typed.decode("ascii", "replace"):
        view.opened ^= {f"gpu{key}"} & known
    return b"q" not in typed.lower()


class ScreenNotices:
    """The route of alerts that shows them below the table, and prints them when it is gone."""

    def __init__(self, view: WatchView) -> None:
        self._view = view
        self._told: deque[str] = deque(maxlen=200)

    def publish(self, delivery: Delivery) -> None:
        """Show the notices."""
        self._told.extend(delivery.text.splitlines())
        self._view.notices = list(self._told)

    def close(self, reason: object) -> None:
        """Nothing is open."""

    def print_told(self) -> None:
        """Print every alert of the session."""
        for text in self._told:
            print(text)


class Screen:
    """The alternate screen of a terminal. Alerts are printed again when it is gone."""

    def __init__(self) -> None:
        self.view = WatchView()
        self.notices = ScreenNotices(self.view)

    def __enter__(self) -> Screen:
        import termios
        import tty

        self._before = termios.tcgetattr(0) if sys.stdin.isatty() else None
        if self._before is not None:
            tty.setcbreak(0)
        sys.stdout.write("\x1b[?1049h\x1b[?25l\x1b[2J")
        return self

    def __exit__(self, *_: object) -> None:
        import termios

        sys.stdout.write("\x1b[?25h\x1b[?1049l")
        sys.stdout.flush()
        if self._before is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, self._before)
        self.notices.print_told()

    def wait_for_end(
        self, seconds: float, machine: WatchedMachine | None, redraw: Callable[[], object]
    ) -> bool:
        """Wait, and draw again after each key; True if the user ends the watch."""
        import select

        if self._before is None:
            time.sleep(seconds)
            return False
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if not select.select([0], [], [], left)[0]:
                continue
            typed = os.read(0, 64)
            if not typed or not press_keys(self.view, typed, machine):
                return True
            redraw()
        return False

    def draw_text(self, text: str) -> None:
        """Replace the content."""
        lines = text.rstrip("\n").split("\n")
        sys.stdout.write("\x1b[H" + "\r\n".join(f"{line}\x1b[K" for line in lines) + "\x1b[J")
        sys.stdout.flush()
