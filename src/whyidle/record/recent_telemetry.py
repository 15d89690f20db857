"""Follows a growing telemetry file and keeps its recent rows, with what is needed to read them."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Final

from whyidle.record.recent_window import WINDOW_NS

MOST_BYTES: Final = 4 << 20
"""read at once: minutes of telemetry"""


class RecentTelemetry:
    """The rows of the last half minute. Each byte of the file is read once."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0
        self._notes: dict[bytes, bytes] = {}  # of the recording and its sources, the latest of each
        self._columns: dict[bytes, bytes] = {}
        self._rows: deque[tuple[bytes, int, bytes]] = deque()

    def read_appended(self) -> None:
        """Read the newly appended lines."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                content = file.read(MOST_BYTES)
        except OSError:
            return
        whole = content[: content.rfind(b"\n") + 1]
        self._at += len(whole)
        for line in whole.splitlines(keepends=True):
            self._sort_line(line)
        while self._rows and self._rows[0][1] < self._rows[-1][1] - WINDOW_NS:
            self._rows.popleft()

    def _sort_line(self, line: bytes) -> None:
        if line.startswith(b'{"columns":'):
            self._columns[line[len(b'{"columns":') :].partition(b",")[0]] = line
        elif line.startswith(b"["):
            number, _, rest = line[1:].partition(b",")
            clock = rest.partition(b",")[0].rstrip(b"]\n")
            if clock.isdigit():
                self._rows.append((number, int(clock), line))
        else:
            self._notes[line.partition(b",")[0]] = line  # {"schema":... and {"source":NAME

    def write_to(self, path: Path) -> None:
        """Write the recent rows as a telemetry file. Declarations without a row are forgotten."""
        used = {number for number, _, _ in self._rows}
        self._columns = {n: line for n, line in self._columns.items() if n in used}
        rows = (line for _, _, line in self._rows)
        path.write_bytes(b"".join([*self._notes.values(), *self._columns.values(), *rows]))
