"""The screen of ``whyidle watch``: the terminal's alternate screen, and what its keys do."""

from __future__ import annotations

import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from whyidle.reports._watch_table import WatchView, list_rows

if TYPE_CHECKING:
    from whyidle.model.documents.watch_document import WatchedMachine
    from whyidle.model.live.alert import Delivery

_KEY: Final = re.compile(rb"\x1b[\[O][A-D]|[\x00-\x7f]", re.DOTALL)
_STEPS: Final = {b"\x1b[A": -1, b"\x1bOA": -1, b"k": -1, b"\x1b[B": 1, b"\x1bOB": 1, b"j": 1}
"""the cursor keys, and those of less and vi"""


@dataclass(slots=True)
class Keys:
    """What the user has chosen."""

    view: WatchView = field(default_factory=WatchView)

    def press(self, key: bytes, machine: WatchedMachine | None) -> bool:
        """Act on a key; False if it ends the watch."""
        view = self.view
        rows = list_rows(machine) if machine is not None else []
        if key.lower() == b"q":
            return False
        if key in _STEPS and rows:
            at = rows.index(view.selected) if view.selected in rows else -1
            step = _STEPS[key]
            view.selected = rows[max(0, min(len(rows) - 1, at + step))]
        elif key in (b"\r", b"\n", b" ") and view.selected in rows:
            view.opened ^= {view.selected}
        elif key == b"\x1b":
            view.selected, view.opened = None, set()
        return True


class ScreenNotices:
    """The route of alerts that shows them below the table, and prints them when it is gone."""

    def __init__(self, view: WatchView) -> None:
        self._view = view
        self._told: deque[str] = deque(maxlen=200)

    def publish(self, delivery: Delivery) -> None:
        """Show the notices."""
        self._told.extend(notice.text for notice in delivery.notices)
        if delivery.held_back:
            self._told.append(f"and {delivery.held_back} more notices were held back")
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
        self.keys = Keys()
        self.notices = ScreenNotices(self.keys.view)

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
            keys = _KEY.findall(typed)
            if not typed or not all(self.keys.press(key, machine) for key in keys):
                return True
            redraw()
        return False

    def draw_text(self, text: str) -> None:
        """Replace the content."""
        lines = text.rstrip("\n").split("\n")
        sys.stdout.write("\x1b[H" + "\r\n".join(f"{line}\x1b[K" for line in lines) + "\x1b[J")
        sys.stdout.flush()
