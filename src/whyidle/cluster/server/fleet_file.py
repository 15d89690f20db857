"""Reads the document of a fleet report, again when it changes."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec

from whyidle.errors import InputError
from whyidle.model.documents.fleet import FleetReport
from whyidle.store.decode_errors import describe_error


class FleetFile:
    """A file that ``whyidle fleet report --json`` writes, from time to time."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._report: FleetReport | None = None

    def read(self) -> FleetReport | None:
        """The report; None if the server was given none.

        Raises:
            InputError: the file cannot be read, or is no report of this version.
        """
        if self._path is None:
            return None
        try:
            with self._lock:
                status = self._path.stat()
                stamp = (status.st_mtime_ns, status.st_size)
                if stamp != self._stamp:
                    self._report = msgspec.json.decode(self._path.read_bytes(), type=FleetReport)
                    self._stamp = stamp
                return self._report
        except OSError as error:
            raise InputError(f"Cannot read {self._path}.", why=f"{error.strerror}.") from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(
                f"{self._path} is not a report of a fleet that this version can read.",
                why=f"{describe_error(error)}.",
                hint="Write it again: whyidle fleet report --json FILE",
            ) from error
