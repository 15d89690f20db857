"""The tables of a fleet in DuckDB: a connection with limits, and rows of ledgers in it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from whyidle.errors import InputError, MissingExtraError
from whyidle.model.fleet_rows import LedgerRows
from whyidle.model.node_lists import short_name_sql

if TYPE_CHECKING:
    import duckdb

MEMORY_LIMIT: Final = "1500MB"
"""of DuckDB, which spills to disk beyond it; the whole process stays below 2 GB"""
COLUMNS: Final[dict[str, dict[str, str]]] = {
    "jobs": {
        **dict.fromkeys(("job", "ledger", "state", "name", "user", "account"), "VARCHAR"),
        "partition": "VARCHAR",
        **dict.fromkeys(("submit_ms", "start_ms", "end_ms", "limit_s"), "BIGINT"),
        **dict.fromkeys(("gpus", "milli"), "INTEGER"),
        **dict.fromkeys(("profile", "gpu_type"), "VARCHAR"),
        **dict.fromkeys(("cpus", "cpu_s"), "DOUBLE"),
        "memory_bytes": "BIGINT",
        "memory_used_bytes": "BIGINT",
        "nodes": "INTEGER",
    },
    "holdings": {
        **dict.fromkeys(("job", "label", "node", "gpu"), "VARCHAR"),
        **dict.fromkeys(("gpus", "milli"), "INTEGER"),
        "shared": "BOOLEAN",
        **dict.fromkeys(("start_ms", "end_ms"), "BIGINT"),
    },
    "nodes": {"node": "VARCHAR", "gpus": "INTEGER", "gpu_type": "VARCHAR", "cpus": "DOUBLE"},
    "causes": {
        **dict.fromkeys(("job", "host", "run", "cause", "title"), "VARCHAR"),
        **dict.fromkeys(("lost", "waiting"), "DOUBLE"),
        "fix": "VARCHAR",
    },
}


def connect(work: Path) -> duckdb.DuckDBPyConnection:
    """A database in memory that spills into ``work``.

    Raises:
        MissingExtraError: DuckDB is not installed.
    """
    try:
        import duckdb  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise MissingExtraError(
            "duckdb is not installed.",
            why="It is needed for fleet reports.",
            hint="pip install 'whyidle[fleet]'",
        ) from error
    connection = duckdb.connect()
    connection.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")
    connection.execute("SET preserve_insertion_order = false")
    connection.execute("SET temp_directory = ?", [str(work / "spill")])
    connection.execute("SET enable_progress_bar = false")
    return connection


def run_query(connection: duckdb.DuckDBPyConnection, query: str, *values: object) -> list[Any]:
    """Run a query and return its rows.

    Raises:
        InputError: the data cannot be read.
    """
    import duckdb  # noqa: PLC0415  # an extra

    try:
        return connection.execute(query, list(values)).fetchall()
    except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException):
        raise  # a mistake of ours
    except duckdb.Error as error:
        why = str(error).partition("\n")[0].rstrip(".")
        raise InputError("The rows cannot be read.", why=f"{why}.") from error


def load_rows(connection: duckdb.DuckDBPyConnection, rows: LedgerRows) -> None:
    """Make the tables ``jobs``, ``holdings``, ``nodes`` and ``causes``."""
    parts: dict[str, Sequence[msgspec.Struct]] = {
        "jobs": rows.jobs, "holdings": rows.holdings, "nodes": rows.nodes, "causes": rows.causes
    }  # fmt: skip
    for name, part in parts.items():
        load_table(connection, name, part, COLUMNS[name])
    node = short_name_sql("node")
    connection.execute(f"UPDATE nodes SET node = {node}")
    connection.execute(
        "CREATE OR REPLACE TABLE holdings AS "
        "SELECT row_number() OVER (ORDER BY start_ms, job, node, gpu) AS hold, "
        f"* REPLACE ({node} AS node) FROM holdings"
    )


def name_causes(connection: duckdb.DuckDBPyConnection) -> None:
    """Give the causes of runs the names of the jobs that they belong to. A run knows its job by the
    name that meters use, or by its host, which is the name of its pod."""
    connection.execute(
        """
        CREATE OR REPLACE TABLE causes AS
        WITH named AS (SELECT DISTINCT job, label FROM holdings)
        SELECT DISTINCT causes.* REPLACE (coalesce(named.job, causes.job) AS job)
        FROM causes LEFT JOIN named
          ON named.label = causes.job OR split_part(named.label, '/', 2) = causes.host
        """
    )


def load_table(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    rows: Iterable[msgspec.Struct],
    columns: dict[str, str],
) -> None:
    """Make a table of structures, through a file of JSON lines: row by row takes minutes."""
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(msgspec.json.Encoder().encode_lines(rows))
        file.flush()
        types = ", ".join(f"{column}: '{kind}'" for column, kind in columns.items())
        connection.execute(
            f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM read_json(?, "
            f"format='newline_delimited', columns={{{types}}})",
            [file.name],
        )
