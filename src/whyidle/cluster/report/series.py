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
from typing import TYPE_CHECKING, Final

from whyidle.cluster.report.tables import run_query
from whyidle.model.fleet_rows import READING_COLUMNS, MeterTable, Window

if TYPE_CHECKING:
    import duckdb

_LABELS: Final = ("node", "gpu", "uuid", "job", "owner")
SERIES: Final = f"hash(meter, {', '.join(_LABELS)})"
"""64 bits: two of a million series are the same with a chance of 10^-8"""
_PROBED: Final = 64
"""series whose sampling period is measured"""
_STEPS: Final = 50
"""periods of them that are read"""
_NAMED: Final = 5
"""nodes that a note names"""


def prepare_readings(
    connection: duckdb.DuckDBPyConnection, meters: Sequence[MeterTable], work: Path, window: Window
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
                meter.counts.update(_copy_readings(connection, query, copy))
            meter.counts.update(_count_odd(connection, copy, window))
            query = f"SELECT * FROM read_parquet('{copy}')"
        parts.append(f"SELECT CAST({number} AS UTINYINT) AS meter, {columns} FROM ({query})")
    connection.execute(f"CREATE OR REPLACE VIEW readings AS {' UNION ALL '.join(parts)}")


def _count_odd(connection: duckdb.DuckDBPyConnection, copy: Path, window: Window) -> Counter[str]:
    """Readings without a time, and late or early ones. Not of Parquet that is read in place, which
    may be the history of years."""
    ((timeless, outside),) = run_query(
        connection,
        "SELECT count(*) FILTER (time_ms IS NULL), count(*) FILTER (time_ms <= ? OR time_ms > ?) "
        f"FROM read_parquet('{copy}')",
        window.start_ms, window.end_ms,
    )  # fmt: skip
    return +Counter({"readings without a time": timeless, "readings outside the window": outside})


def _copy_readings(connection: duckdb.DuckDBPyConnection, query: str, copy: Path) -> Counter[str]:
    """Copy them, and count what cannot be read."""
    draft = copy.with_suffix(".draft")
    run_query(
        connection, f"COPY (SELECT * FROM ({query}) ORDER BY time_ms) TO '{draft}' (FORMAT parquet)"
    )
    draft.replace(copy)
    tables = run_query(connection, "SELECT 1 FROM duckdb_tables() WHERE table_name='reject_errors'")
    if not tables:
        return Counter()
    found = run_query(connection, "SELECT count(DISTINCT (file_id, line)) FROM reject_errors")
    return +Counter({"readings that cannot be read": found[0][0]})


def find_series(connection: duckdb.DuckDBPyConnection, window: Window) -> Counter[str]:
    """Make the table ``series`` with the readings of the window, and their number and times; return
    the count of readings that can be used by nobody."""
    run_query(
        connection,
        f"CREATE OR REPLACE TABLE series AS SELECT {SERIES} AS series, meter, node, gpu, uuid, job,"
        " owner, count(*) AS readings, min(time_ms) AS first_ms, max(time_ms) AS last_ms "
        "FROM readings WHERE time_ms > ? AND time_ms <= ? GROUP BY ALL",
        window.start_ms, window.end_ms,
    )  # fmt: skip
    ((nameless,),) = run_query(
        connection,
        "SELECT sum(readings) FROM series WHERE node IS NULL AND job IS NULL AND uuid IS NULL",
    )
    return +Counter({"readings without node, job or UUID": int(nameless or 0)})


def measure_periods(connection: duckdb.DuckDBPyConnection, meters: int) -> list[int]:
    """The sampling period of each meter, in milliseconds: the median of the times between readings
    of a series, over the longest series; 60 s if no series has two readings."""
    return [_measure_period(connection, meter) for meter in range(meters)]


def _measure_period(connection: duckdb.DuckDBPyConnection, meter: int) -> int:
    ((low, step),) = run_query(
        connection,
        f"""
        SELECT min(first_ms), max((last_ms - first_ms) / greatest(readings - 1, 1)) FROM (
          SELECT * FROM series WHERE meter = {meter} ORDER BY readings DESC, series LIMIT {_PROBED})
        """,
    )
    if not step:
        return 60_000
    ((median,),) = run_query(  # with literal bounds, so that a scan of 10^8 rows is a short one
        connection,
        f"""
        WITH moments AS (
          SELECT DISTINCT {SERIES} AS series, time_ms FROM readings
          WHERE meter = {meter} AND time_ms BETWEEN {low} AND {low + _STEPS * max(1, round(step))}
        )
        SELECT median(step) FROM (
          SELECT time_ms - lag(time_ms) OVER (PARTITION BY series ORDER BY time_ms) AS step
          FROM moments)
        """,
    )
    return max(1, round(median)) if median is not None else max(1, round(step))


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


def name_unmatched_nodes(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Sentences on nodes whose holdings match no reading, and whose readings match no holding: a
    node that is never allocated is among the latter, and so is a name that is spelled otherwise."""
    matched = "SELECT {column} FROM routes"
    found = (
        ("Nodes with jobs and without readings", "holdings", "hold"),
        ("Nodes with readings and without jobs", "series", "series"),
    )
    notes = []
    for text, table, column in found:
        rows = run_query(
            connection,
            f"SELECT node FROM {table} WHERE node IS NOT NULL GROUP BY node "
            f"HAVING count(*) FILTER ({column} IN ({matched.format(column=column)})) = 0 "
            "ORDER BY node",
        )
        if rows:
            names = ", ".join(str(node) for (node,) in rows[:_NAMED])
            more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
            notes.append(f"{text}: {names}{more}.")
    return notes
