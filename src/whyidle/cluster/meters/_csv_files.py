"""Reads a CSV file of readings, for every meter whose files are that."""

from __future__ import annotations

import csv
import gzip
import zlib
from pathlib import Path

from whyidle.cluster.meters._columns import quote_text, select_columns
from whyidle.errors import InputError


def select_file(path: Path, skip: int = 0) -> str:
    """The query of one file, whose header stands in line ``skip``."""
    head, separator = _read_head(path, skip)
    columns = {f"c{number}": "VARCHAR" for number in range(len(head))}
    types = ", ".join(f"'{name}': '{kind}'" for name, kind in columns.items())
    relation = (
        f"read_csv({quote_text(path)}, header=false, skip={skip + 1}, auto_detect=false, "
        f"delim={quote_text(separator)}, quote='\"', escape='\"', null_padding=true, "
        f"strict_mode=false, store_rejects=true, columns={{{types}}})"
    )
    return select_columns(dict(zip(head, columns, strict=True)), relation, path)


def _read_head(path: Path, skip: int) -> tuple[list[str], str]:
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for _ in range(skip):
                file.readline(1 << 16)
            line = file.readline(1 << 16).decode("utf-8-sig", errors="replace").strip("\r\n")
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"Cannot read {path}.", why=f"{error}.") from error
    separator = max(",;\t|", key=line.count)
    try:
        head = next(csv.reader([line.replace("\0", "")], delimiter=separator), [])
    except csv.Error as error:
        raise InputError(f"Cannot read {path}.", why=f"{error}.") from error
    if not head:
        raise InputError(f"{path} is empty.")
    return _distinct(head), separator


def _distinct(head: list[str]) -> list[str]:
    """Names of columns; a name that stands twice is used once."""
    return [name if name not in head[:number] else f"#{number}" for number, name in enumerate(head)]
