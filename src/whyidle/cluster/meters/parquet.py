"""Readings of GPUs as Parquet (``parquet:FILE``, a folder, a pattern, or a list with commas).

Columns are known by name, as those of CSV. Files that are sorted by time are read in parts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from whyidle.cluster.meters._columns import (
    describe_version,
    import_duckdb,
    list_files,
    quote_text,
    select_columns,
)
from whyidle.errors import InputError
from whyidle.model.fleet_rows import MeterTable, Progress, Window

ENDINGS: Final = (".parquet",)


def read(where: str, window: Window, work: Path, progress: Progress) -> MeterTable:  # noqa: ARG001
    """All readings of the files."""
    files = list_files(where, ENDINGS)
    queries = [select_file(path) for path in files]
    return MeterTable(
        query=" UNION ALL ".join(queries), is_parquet=True, version=describe_version(files)
    )


def select_file(path: Path) -> str:
    """The query of one file."""
    duckdb = import_duckdb()
    relation = f"read_parquet({quote_text(path)})"
    try:
        described = duckdb.connect().execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    except duckdb.Error as error:
        why = str(error).partition("\n")[0].rstrip(".")
        raise InputError(f"Cannot read {path}.", why=f"{why}.") from error
    columns = {row[0]: '"' + row[0].replace('"', '""') + '"' for row in described}
    return select_columns(columns, relation, path, {row[0]: str(row[1]) for row in described})
