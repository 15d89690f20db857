"""Who listens in the network that this process is in, as the kernel tells it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
LISTENS = "0A"


def is_listening(port: int) -> bool:
    """Whether somebody listens at a port. C++ code counts, too: the ranks of PyTorch meet in it."""
    end = f":{port:04X}"
    return any(place.endswith(end) for table in TABLES for place in _listening_sockets(table))


def _listening_sockets(table: str) -> Iterator[str]:
    with suppress(OSError), open(table, encoding="ascii") as file:  # no IPv6 has no table of it
        for line in file:
            _, local, _, state = line.split()[:4]
            if state == LISTENS:
                yield local
