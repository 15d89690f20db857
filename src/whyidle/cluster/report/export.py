"""Writes the tables of a fleet as Parquet, for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from whyidle.cluster.report.reading import FleetTables
from whyidle.cluster.report.tables import run_query
from whyidle.errors import OutputError

_TABLES: Final = {
    "jobs": "SELECT * FROM jobs LEFT JOIN uses USING (job)",
    "holdings": "SELECT * FROM priced",
    "hours": "SELECT * FROM hours",
    "causes": "SELECT * FROM causes",
}
"""file -> its rows; times are milliseconds since the epoch, states of holdings GPU-milliseconds"""


def export_tables(fleet: FleetTables, folder: Path) -> None:
    """Write one file for each table.

    Raises:
        OutputError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, query in _TABLES.items():
            draft = folder / f".{name}.parquet"
            target = str(draft).replace("'", "''")
            run_query(fleet.connection, f"COPY ({query}) TO '{target}' (FORMAT parquet)")
            draft.replace(folder / f"{name}.parquet")
    except OSError as error:
        raise OutputError(f"Cannot write {folder}.", why=f"{error.strerror or error}.") from error
