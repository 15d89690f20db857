"""Series of readings, and which holding of the ledger each one belongs to.

A series is joined to a job, strongest first: by the label that it carries; by node and GPU where
the ledger names the GPU; by node where the job had every GPU of it. What can be joined in none of
these ways stays unknown.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from whyidle.engine.fleet.tables import run_query
from whyidle.model.fleet_rows import READING_COLUMNS, MeterTable, Window

if TYPE_CHECKING:
    import duckdb

SERIES: Final = "hash(meter, node, gpu, uuid, job, owner)"
"""64 bits: two of a million series are the same with a chance of 10^-8"""
_PROBED: Final = 64
"""series whose sampling period is measured"""


def prepare_readings(
    connection: duckdb.DuckDBPyConnection, meters: Sequence[MeterTable], work: Path
) -> None:
    """Make the view ``readings`` of all meters. Those that are no Parquet are copied once."""
    columns = ", ".join(READING_COLUMNS)
    parts = []
    for number, meter in enumerate(meters):
        query = meter.query
        if not meter.is_parquet:
            key = hashlib.sha256(f"{meter.version}\0{query}".encode()).hexdigest()[:16]
            copy = work / f"meter-{key}.parquet"
            if not copy.exists():
                _copy_readings(connection, query, copy, meter.counts)
            query = f"SELECT * FROM read_parquet('{copy}')"
        parts.append(f"SELECT CAST({number} AS UTINYINT) AS meter, {columns} FROM ({query})")
    connection.execute(f"CREATE OR REPLACE VIEW readings AS {' UNION ALL '.join(parts)}")


def _copy_readings(
    connection: duckdb.DuckDBPyConnection, query: str, copy: Path, counts: Counter[str]
) -> None:
    draft = copy.with_suffix(".draft")
    run_query(
        connection, f"COPY (SELECT * FROM ({query}) ORDER BY time_ms) TO '{draft}' (FORMAT parquet)"
    )
    draft.replace(copy)
    tables = run_query(connection, "SELECT 1 FROM duckdb_tables() WHERE table_name='reject_errors'")
    if tables:
        found = run_query(connection, "SELECT count(DISTINCT (file_id, line)) FROM reject_errors")
        counts["readings that cannot be read"] += found[0][0]


def find_series(connection: duckdb.DuckDBPyConnection, window: Window) -> Counter[str]:
    """Make the table ``series`` with the readings of the window, and their number and times; return
    the counts of readings that can be used by nobody."""
    run_query(
        connection,
        f"CREATE OR REPLACE TABLE series AS SELECT {SERIES} AS series, meter, node, gpu, uuid, job,"
        " owner, count(*) AS readings, min(time_ms) AS first_ms, max(time_ms) AS last_ms "
        "FROM readings WHERE time_ms > ? AND time_ms <= ? GROUP BY ALL",
        window.start_ms, window.end_ms,
    )  # fmt: skip
    ((timeless, outside, nameless),) = run_query(
        connection,
        "SELECT count(*) FILTER (time_ms IS NULL), "
        "count(*) FILTER (time_ms <= ? OR time_ms > ?), "
        "count(*) FILTER (node IS NULL AND job IS NULL AND uuid IS NULL) FROM readings",
        window.start_ms, window.end_ms,
    )  # fmt: skip
    counts = Counter[str]()
    counts["readings without a time"] = timeless
    counts["readings outside the window"] = outside
    counts["readings without node, job or UUID"] = nameless
    return +counts


def measure_periods(connection: duckdb.DuckDBPyConnection, meters: int) -> list[int]:
    """The sampling period of each meter, in milliseconds: the median of the times between readings
    of a series, over the longest series; 60 s if no series has two readings."""
    return [_measure_period(connection, meter) for meter in range(meters)]


def _measure_period(connection: duckdb.DuckDBPyConnection, meter: int) -> int:
    # one hour of the busiest series is enough, and cheap where there are 10^8 readings
    rows: list[Any] = run_query(
        connection,
        f"""
        WITH chosen AS (
          SELECT series, first_ms FROM series WHERE meter = {meter}
          ORDER BY readings DESC, series LIMIT {_PROBED}
        ), span AS (
          SELECT min(first_ms) AS low, min(first_ms) + 86400000 AS high FROM chosen
        ), moments AS (
          SELECT DISTINCT {SERIES} AS series, time_ms FROM readings
          WHERE meter = {meter} AND time_ms BETWEEN (SELECT low FROM span)
            AND (SELECT high FROM span) AND {SERIES} IN (SELECT series FROM chosen)
        )
        SELECT median(step) FROM (
          SELECT time_ms - lag(time_ms) OVER (PARTITION BY series ORDER BY time_ms) AS step
          FROM moments)
        """,
    )
    return max(1, round(rows[0][0])) if rows[0][0] is not None else 60_000


def take_holdings_from_labels(
    connection: duckdb.DuckDBPyConnection, periods: Sequence[int]
) -> None:
    """Fill ``jobs`` and ``holdings`` from the labels of the readings: a job held a GPU from its
    first to its last reading. For sites whose ledger forgets ended jobs, as Kubernetes does."""
    period = "CASE meter " + " ".join(f"WHEN {n} THEN {p}" for n, p in enumerate(periods)) + " END"
    connection.execute(
        f"""
        INSERT INTO holdings BY NAME
        SELECT row_number() OVER () + (SELECT count(*) FROM holdings) AS hold,
          concat_ws('/', owner, job) AS job, concat_ws('/', owner, job) AS label, node,
          coalesce(gpu, uuid) AS gpu, 1 AS gpus, 1000 AS milli, false AS shared,
          min(first_ms) - any_value({period}) AS start_ms, max(last_ms) AS end_ms
        FROM series WHERE job IS NOT NULL GROUP BY owner, job, node, coalesce(gpu, uuid)
        """
    )
    connection.execute(
        """
        INSERT INTO jobs BY NAME
        SELECT concat_ws('/', owner, series.job) AS job, 'labels' AS ledger, 'unknown' AS state,
          job AS name, owner AS user, count(DISTINCT (node, gpu, uuid)) AS gpus, 1000 AS milli,
          min(first_ms) AS start_ms, max(last_ms) AS end_ms
        FROM series WHERE job IS NOT NULL GROUP BY owner, job
        """
    )


def route_series(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the table ``routes``: the holdings that a series may belong to, at their times."""
    run_query(
        connection,
        """
        CREATE OR REPLACE TABLE routes AS
        WITH named AS (
          SELECT series.series, holdings.hold FROM series JOIN holdings
            ON holdings.label = series.job
          UNION
          SELECT series.series, holdings.hold FROM series JOIN holdings
            ON holdings.label = series.owner || '/' || series.job
        ), labelled AS (
          SELECT named.series, named.hold, series.meter FROM named
          JOIN series USING (series) JOIN holdings USING (hold)
          WHERE (series.node IS NULL OR holdings.node IS NULL OR series.node = holdings.node)
            AND (holdings.gpu IS NULL OR coalesce(series.gpu, series.uuid) IS NULL
                 OR holdings.gpu IN (series.gpu, series.uuid))
        ), placed AS (
          SELECT * FROM series WHERE series NOT IN (SELECT series FROM labelled)
        ), sizes AS (
          SELECT node, count(DISTINCT coalesce(gpu, uuid)) AS gpus FROM series
          WHERE node IS NOT NULL GROUP BY node
        )
        SELECT * FROM labelled
        UNION ALL
        SELECT placed.series, holdings.hold, placed.meter FROM placed JOIN holdings
          ON holdings.node = placed.node AND holdings.gpu = placed.gpu
        UNION ALL
        SELECT placed.series, holdings.hold, placed.meter FROM placed JOIN holdings
          ON holdings.gpu = placed.uuid AND holdings.gpu IS DISTINCT FROM placed.gpu
        UNION ALL
        SELECT placed.series, holdings.hold, placed.meter FROM placed
          JOIN holdings ON holdings.node = placed.node AND holdings.gpu IS NULL
          JOIN sizes ON sizes.node = holdings.node AND sizes.gpus = holdings.gpus
        WHERE holdings.milli = 1000
        """,
    )
