"""Whose memory an address is in: of this process alone, shared with others, or a file's.

Told by the system's own list of what is mapped (Linux): neither NumPy nor PyTorch knows it of an
array that was made of a ``ctypes`` object, or of a tensor made of an array that is a file.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

LIST = "/proc/self/maps"
GONE = " (deleted)"
"""a file without a name, as multiprocessing makes them for memory"""
IN_MEMORY = ("/dev/shm/", "/dev/zero", "/memfd:", "/SYSV")


class Owner(NamedTuple):
    """Of a stretch of memory."""

    shared: bool
    file: bool


OWN = Owner(shared=False, file=False)


class Maps:
    """What is mapped now."""

    def __init__(self) -> None:
        self.begins: list[int] = []
        self.ends: list[int] = []
        self.owners: list[Owner] = []
        try:
            with open(LIST, encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    self._add(line)
        except OSError:  # another system: nothing is known of any
            pass

    def _add(self, line: str) -> None:
        where, rights, _, _, number, *path = line.split(maxsplit=5)
        shared, name = rights.endswith("s"), path[0].strip() if path else ""
        file = number != "0" and not (name.startswith(IN_MEMORY) or name.endswith(GONE))
        if shared or file:
            begin, _, end = where.partition("-")
            self.begins.append(int(begin, 16))
            self.ends.append(int(end, 16))
            self.owners.append(Owner(shared, file))

    def of(self, address: int) -> Owner:
        """Whose it is; this process's own where nothing else is known."""
        at = bisect_right(self.begins, address) - 1
        return self.owners[at] if at >= 0 and address < self.ends[at] else OWN
