"""The heat map of a fleet: its GPUs, or the nodes of a large fleet, by hour."""

from __future__ import annotations

from typing import Final

from whyidle.cluster.report.reading import FleetTables
from whyidle.cluster.report.tables import run_query
from whyidle.model.documents.fleet import HeatRow
from whyidle.model.fleet_rows import HOUR_MS

MOST_ROWS: Final = 96
MOST_COLUMNS: Final = 168
"""a week of hours; longer windows have columns of several hours"""


def make_heat(fleet: FleetTables) -> tuple[int, list[HeatRow]]:
    """The hours of a column, and the rows: those with the most allocated time where there are more
    than fit, in the order of their names."""
    window = fleet.window
    first, last = window.start_ms // HOUR_MS, (window.end_ms - 1) // HOUR_MS
    step_h = -(-(last - first + 1) // MOST_COLUMNS)
    columns = (last - first) // step_h + 1
    ((devices, named),) = run_query(
        fleet.connection,
        "SELECT count(DISTINCT (node, gpu)), count(*) FILTER (gpu IS NULL) FROM holdings",
    )
    label = (
        "concat_ws(' ', node, gpu)" if devices <= MOST_ROWS and not named else "coalesce(node, job)"
    )
    rows: dict[str, HeatRow] = {}
    origin = f"{first * HOUR_MS}::BIGINT"
    query = _CELLS.format(label=label, step=step_h * HOUR_MS, first_ms=origin, hours=step_h)
    for name, column, allocated, busy in run_query(fleet.connection, query):
        if name not in rows:
            rows[name] = HeatRow(label=name, allocated=[0.0] * columns, busy=[None] * columns)
        rows[name].allocated[column] = allocated
        rows[name].busy[column] = busy
    most = sorted(rows.values(), key=lambda row: -sum(row.allocated))[:MOST_ROWS]
    return step_h, sorted(most, key=lambda row: row.label)


_CELLS: Final = """
WITH parts AS (
  SELECT hold, coalesce({label}, '?') AS label, gpus, milli, start_ms, end_ms,
    unnest(range((start_ms - {first_ms}) // {step},
      (end_ms - 1 - {first_ms}) // {step} + 1)) AS cell
  FROM holdings
), held AS (
  SELECT label, cell, sum((least(end_ms, (cell + 1) * {step} + {first_ms})
    - greatest(start_ms, cell * {step} + {first_ms})) * gpus * milli) / 3.6e9 AS allocated
  FROM parts GROUP BY ALL
), used AS (
  SELECT coalesce({label}, '?') AS label, (hour - {first_ms} // 3600000) // {hours} AS cell,
    sum(busy_sum) / nullif(sum(busy_n), 0) AS busy
  FROM hours JOIN holdings USING (hold) GROUP BY ALL
)
SELECT label, CAST(cell AS INTEGER), allocated, busy FROM held LEFT JOIN used USING (label, cell)
"""
