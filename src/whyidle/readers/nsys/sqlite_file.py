"""SQLite databases as recordings: read-only, packed or not, with tables and columns that come and
go between versions."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from whyidle.errors import InputError
from whyidle.readers._files.byte_stream import ByteStream, Progress

DAMAGED: tuple[type[Exception], ...] = (sqlite3.Error, OverflowError, UnicodeDecodeError)
_BLOCK_ROWS = 1 << 16
_PIECE_BYTES = 1 << 22
_LARGEST = 1 << 61
"""larger numbers are no possible times or sizes, and their differences would overflow"""
PROCESS = "(({} >> 24) & 16777215)"
"""the process id in a global id of a process or thread"""


class Database:
    """An open database. A table or column that it lacks has no rows, or one value for all.
    ``lost`` says what the file lacks."""

    def __init__(self, path: Path, unpacked: tempfile.TemporaryDirectory[str] | None) -> None:
        self._unpacked = unpacked
        self.size = path.stat().st_size
        self.lost = _missing_pages(path, self.size)
        self._connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)
        self._connection.text_factory = lambda text: text.decode("utf-8", "replace")
        try:
            found = self._connection.execute(
                "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c "
                "WHERE t.type = 'table'"
            )
            self.tables: dict[str, frozenset[str]] = {}
            for table, column in found.fetchall():
                self.tables[table] = self.tables.get(table, frozenset()) | {str(column)}
        except DAMAGED:
            self._connection.close()
            raise

    def has_table(self, name: str) -> bool:
        """Whether it has a table."""
        return name in self.tables

    def numbers(
        self, table: str, defaults: Mapping[str, int], where: str = ""
    ) -> dict[str, NDArray[np.int64]]:
        """Columns of a table as integers. ``defaults`` are the values of missing columns and
        cells; ``where`` is a condition in SQL."""
        known = self.tables.get(table, frozenset())
        chosen = ", ".join(
            f"CAST(COALESCE({name}, {default}) AS INTEGER)" if name in known else str(default)
            for name, default in defaults.items()
        )
        blocks = [np.empty((0, len(defaults)), np.int64)]
        if known:
            condition = f" WHERE {where}" if where else ""
            found = self._connection.execute(f"SELECT {chosen} FROM {table}{condition}")
            while rows := found.fetchmany(_BLOCK_ROWS):
                blocks.append(np.array(rows, dtype=np.int64))
        columns = np.clip(np.concatenate(blocks), -_LARGEST, _LARGEST).T
        return dict(zip(defaults, columns, strict=True))

    def pairs(self, table: str, first: str, second: str, where: str = "") -> list[tuple[Any, Any]]:
        """Two columns of a table; none if it lacks one."""
        if not {first, second} <= self.tables.get(table, frozenset()):
            return []
        condition = f" WHERE {where}" if where else ""
        return self._connection.execute(
            f"SELECT {first}, {second} FROM {table}{condition}"
        ).fetchall()

    def number(self, table: str, column: str) -> int:
        """The first value of a column as an integer; 0 without one."""
        values = self.numbers(table, {column: 0})[column]
        return int(values[0]) if len(values) else 0

    def count_processes(self, table: str, column: str) -> list[tuple[int, int]]:
        """(process id, number of rows) of a table; none if it lacks the column."""
        if column not in self.tables.get(table, frozenset()):
            return []
        process = PROCESS.format(f"CAST({column} AS INTEGER)")
        query = f"SELECT {process}, COUNT(*) FROM {table} WHERE {column} NOT NULL GROUP BY 1"
        return [(int(key), int(count)) for key, count in self._connection.execute(query)]

    def of_process(self, table: str, column: str, process: int | None) -> str:
        """The condition for rows of a process; empty if the table does not say."""
        if process is None or column not in self.tables.get(table, frozenset()):
            return ""
        return f"{PROCESS.format(f'CAST({column} AS INTEGER)')} = {process}"

    def close(self) -> None:
        """Close the database, and remove its unpacked copy."""
        self._connection.close()
        if self._unpacked is not None:
            self._unpacked.cleanup()


def _missing_pages(path: Path, size: int) -> str | None:
    """What a file lacks that is shorter than its header says; None if nothing."""
    with path.open("rb") as opened:
        head = opened.read(32).ljust(32, b"\0")
    page = int.from_bytes(head[16:18], "big")
    expected = (65536 if page == 1 else page) * int.from_bytes(head[28:32], "big")
    return f"the file ends after {size} of {expected} bytes" if size < expected else None


def open_database(path: Path, member: str | None, progress: Progress | None) -> Database:
    """Open a database; a packed one is unpacked to a temporary file first.

    Raises:
        InputError: the file cannot be opened, or there is no room to unpack it.
        DAMAGED: it is damaged.
    """
    stream = ByteStream(path, member, progress)
    try:
        head = stream.read(16)
        with path.open("rb") as raw:
            plain = member is None and raw.read(16) == head
        if plain:
            return Database(path, None)
        return _unpack(stream, head, path)
    finally:
        stream.close()


def _unpack(stream: ByteStream, head: bytes, path: Path) -> Database:
    folder = tempfile.TemporaryDirectory(prefix="whyidle-")
    copy = Path(folder.name) / "export.sqlite"
    try:
        with copy.open("wb") as out:
            out.write(head)
            while piece := stream.read(_PIECE_BYTES):
                out.write(piece)
        return Database(copy, folder)
    except OSError as error:
        folder.cleanup()
        raise InputError(
            f"Cannot unpack {path}.",
            why=f"{error.strerror}.",
            hint="Make room in the folder for temporary files, or set TMPDIR.",
        ) from error
    except DAMAGED:
        folder.cleanup()
        raise
