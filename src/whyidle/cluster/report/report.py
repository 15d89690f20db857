"""Makes the report of a fleet from its tables."""

from __future__ import annotations

from typing import Any, Final

from whyidle.cluster.report.advice import give_advice
from whyidle.cluster.report.groups import KEYS, cause_rows, group_rows, measure_capacity, sum_all
from whyidle.cluster.report.job_rows import format_moment, list_jobs, make_job_tables
from whyidle.cluster.report.reading import FleetTables
from whyidle.cluster.report.tables import run_query
from whyidle.model.documents.fleet import FleetCoverage, FleetReport, GroupKey, HeatRow, Prices
from whyidle.model.fleet_rows import HOUR_MS
from whyidle.version import __version__

UNKNOWN_CHECKPOINTS: Final = (
    "Failed jobs count as wasted in full: when they last saved a checkpoint is not known."
)
MOST_ROWS: Final = 96


def make_report(
    fleet: FleetTables, *, by: GroupKey, prices: Prices, now_ms: int, jobs: int | None = 200
) -> FleetReport:
    """Make the document. ``by`` is the table that forms show first, ``jobs`` the most that it has;
    None: all."""
    make_job_tables(fleet, prices)
    rows_of_jobs = list_jobs(fleet, prices, limit=jobs)
    step_h, rows = make_heat(fleet)
    total, count = sum_all(fleet, prices)
    return FleetReport(
        whyidle=__version__, time=format_moment(now_ms) or "",
        since=format_moment(fleet.window.start_ms) or "",
        until=format_moment(fleet.window.end_ms) or "",
        by=by, prices=prices, total=total, job_count=count,
        groups={name: group_rows(fleet, prices, key) for name, key in KEYS.items()},
        causes=cause_rows(fleet), jobs=rows_of_jobs, advice=give_advice(fleet),
        capacity=measure_capacity(fleet), coverage=_describe_coverage(fleet),
        heat_step_h=step_h, heat=rows,
    )  # fmt: skip


def _count_states(fleet: FleetTables) -> dict[str, int]:
    (row,) = run_query(
        fleet.connection,
        "SELECT sum(known - held - reserved), sum(held), sum(reserved), sum(n - known) FROM hours",
    )
    names = ("busy", "idle-held", "idle-reserved", "unknown")
    return {name: int(count or 0) for name, count in zip(names, row, strict=True)}


def _describe_coverage(fleet: FleetTables) -> FleetCoverage:
    ((covered, allocated, failed),) = run_query(
        fleet.connection, "SELECT sum(covered), sum(allocated), sum(failed) FROM accounts"
    )
    latest: Any = run_query(fleet.connection, "SELECT max(last_ms) FROM hours")[0][0]
    return FleetCoverage(
        ledgers=fleet.ledgers,
        meters=fleet.meters,
        telemetry=float(covered or 0) / float(allocated) if allocated else 0.0,
        period_s=fleet.periods_ms[0] / 1000 if fleet.meters else None,
        latest_sample=format_moment(latest),
        disagreeing_hours=fleet.disagreeing_hours,
        readings=_count_states(fleet),
        counts={what: count for what, count in fleet.counts.items() if count},
        notes=[*fleet.notes, *([UNKNOWN_CHECKPOINTS] if failed else [])],
    )


def make_heat(fleet: FleetTables) -> tuple[int, list[HeatRow]]:
    """The hours of a column, and the rows: those with the most allocated time where there are more
    than fit, in the order of their names."""
    window = fleet.window
    first, last = window.start_ms // HOUR_MS, (window.end_ms - 1) // HOUR_MS
    # a week of hours; of longer windows, a column holds several
    step_h = -(-(last - first + 1) // 168)
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
