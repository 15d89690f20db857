"""Where the server of a state folder can be reached, known while it runs."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

FILE: Final = "address"
"""its server holds a lock on it, which ends with the process, however that ends"""


@contextmanager
def hold_address(state: Path, address: str) -> Iterator[None]:
    """Write the address; a second server of the same state leaves that of the first."""
    with (state / FILE).open("a+", encoding="utf-8") as file:
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.truncate(0)
            file.write(address)
            file.flush()
        yield


def read_address(state: Path) -> str | None:
    """The address of the server that runs with a state; None if none does."""
    try:
        with (state / FILE).open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read()
    except OSError:
        pass
    return None
