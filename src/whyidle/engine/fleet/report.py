"""Makes the report of a fleet from its tables."""

from __future__ import annotations

from typing import Any, Final

from whyidle.engine.fleet import heat
from whyidle.engine.fleet.advice import give_advice
from whyidle.engine.fleet.job_rows import (
    SUMMED,
    fetch_rows,
    format_moment,
    list_jobs,
    make_account,
    make_job_tables,
)
from whyidle.engine.fleet.reading import FleetTables
from whyidle.engine.fleet.tables import run_query
from whyidle.model.fleet import (
    Account,
    Capacity,
    CauseRow,
    FleetCoverage,
    FleetReport,
    GroupKey,
    GroupRow,
    Prices,
)
from whyidle.version import __version__

MOST_JOBS: Final = 200
"""jobs of a report, those with the most waste; tables hold all"""
MOST_GROUPS: Final = 500
_KEYS: Final = {"user": '"user"', "partition": '"partition"', "node": "node", "job": "job"}


def make_report(fleet: FleetTables, *, by: GroupKey, prices: Prices, now_ms: int) -> FleetReport:
    """Make the document. ``by`` is the table that forms show first."""
    make_job_tables(fleet, prices)
    jobs = list_jobs(fleet, prices, limit=MOST_JOBS)
    step_h, rows = heat.make_heat(fleet)
    total, count = _sum_all(fleet, prices)
    return FleetReport(
        whyidle=__version__,
        time=format_moment(now_ms) or "",
        since=format_moment(fleet.window.start_ms) or "",
        until=format_moment(fleet.window.end_ms) or "",
        by=by,
        prices=prices,
        total=total,
        job_count=count,
        groups={name: _group_rows(fleet, prices, key) for name, key in _KEYS.items()},
        causes=_cause_rows(fleet),
        jobs=jobs,
        advice=give_advice(fleet),
        capacity=_measure_capacity(fleet),
        coverage=_describe_coverage(fleet),
        heat_step_h=step_h,
        heat=rows,
    )


def _sum_all(fleet: FleetTables, prices: Prices) -> tuple[Account, int]:
    query = f"SELECT count(DISTINCT job) AS jobs, {SUMMED} FROM priced"
    (row,) = fetch_rows(fleet.connection, query)
    return make_account(row, prices), row["jobs"]


def _group_rows(fleet: FleetTables, prices: Prices, key: str) -> list[GroupRow]:
    rows = fetch_rows(
        fleet.connection,
        f"""
        WITH used AS (
          SELECT coalesce({key}, '?') AS key, sum(busy_sum) / nullif(sum(busy_n), 0) AS busy
          FROM hours JOIN priced USING (hold) GROUP BY 1
        ), sums AS (
          SELECT coalesce({key}, '?') AS key, count(DISTINCT job) AS jobs, {SUMMED}
          FROM priced GROUP BY 1
        )
        SELECT sums.*, used.busy FROM sums LEFT JOIN used USING (key)
        ORDER BY starved + idle_held + idle_reserved + failed DESC, allocated DESC, key
        LIMIT {MOST_GROUPS}
        """,
    )
    return [
        GroupRow(
            key=row["key"], jobs=row["jobs"], busy=row["busy"], coverage=row["coverage"] or 0.0,
            account=make_account(row, prices),
        )
        for row in rows
    ]  # fmt: skip


def _cause_rows(fleet: FleetTables) -> list[CauseRow]:
    """Starved time by cause: a job's starved time is divided in the proportion of what its findings
    cost; what they do not explain has no proven cause."""
    query = """
    WITH starved AS (SELECT job, CAST(sum(starved) AS BIGINT) AS ms FROM accounts GROUP BY job),
    sums AS (SELECT job, greatest(any_value(waiting), sum(lost)) AS whole FROM causes GROUP BY job),
    parts AS (
      SELECT causes.*, CAST(floor(ms * lost / nullif(whole, 0)) AS BIGINT) AS part
      FROM causes JOIN sums USING (job) JOIN starved USING (job)
    )
    SELECT cause, any_value(title) AS title, CAST(sum(part) AS BIGINT) AS ms,
      count(DISTINCT job) AS jobs, any_value(fix) AS fix FROM parts GROUP BY cause ORDER BY ms DESC
    """
    rows = [
        CauseRow(
            cause=row["cause"], title=row["title"], gpu_ms=row["ms"] or 0,
            gpu_hours=(row["ms"] or 0) / 3.6e6, jobs=row["jobs"], fix=row["fix"],
        )
        for row in fetch_rows(fleet.connection, query)
    ]  # fmt: skip
    ((total, jobs),) = run_query(
        fleet.connection,
        "SELECT CAST(sum(starved) AS BIGINT), count(DISTINCT job) FILTER (starved > 0 AND job NOT "
        "IN (SELECT job FROM causes)) FROM accounts",
    )
    rest = int(total or 0) - sum(row.gpu_ms for row in rows)
    if rest:
        title = "no cause proven: run the jobs under `whyidle run`"
        rows.append(
            CauseRow(
                cause=None, title=title, gpu_ms=rest, gpu_hours=rest / 3.6e6, jobs=jobs, fix=None
            )
        )
    return rows


def _measure_capacity(fleet: FleetTables) -> Capacity:
    ((nodes, gpus),) = run_query(
        fleet.connection, "SELECT count(*), sum(gpus) FROM (SELECT DISTINCT node, gpus FROM nodes)"
    )
    ((devices, shares),) = run_query(
        fleet.connection, "SELECT sum(gpus), sum(gpus * milli) / 1000 FROM jobs"
    )
    ((peak, peak_shares),) = run_query(
        fleet.connection,
        """
        WITH events AS (
          SELECT start_ms AS moment, gpus, gpus * milli AS milli FROM holdings
          UNION ALL SELECT end_ms, -gpus, -gpus * milli FROM holdings
        ), sums AS (
          SELECT moment, sum(gpus) AS gpus, sum(milli) AS milli FROM events GROUP BY moment
        )
        SELECT max(peak), max(peak_shares) FROM (
          SELECT sum(gpus) OVER (ORDER BY moment) AS peak,
            sum(milli) OVER (ORDER BY moment) / 1000 AS peak_shares FROM sums)
        """,
    )
    return Capacity(
        nodes=nodes or None,
        gpus=int(gpus) if gpus else None,
        asked_devices=int(devices or 0),
        asked_shares=float(shares or 0),
        peak_devices=int(peak or 0),
        peak_shares=float(peak_shares or 0),
    )


def _count_states(fleet: FleetTables) -> dict[str, int]:
    (row,) = run_query(
        fleet.connection,
        "SELECT sum(known - held - reserved), sum(held), sum(reserved), sum(n - known) FROM hours",
    )
    names = ("busy", "idle-held", "idle-reserved", "unknown")
    return {name: int(count or 0) for name, count in zip(names, row, strict=True)}


def _describe_coverage(fleet: FleetTables) -> FleetCoverage:
    ((covered, allocated),) = run_query(
        fleet.connection, "SELECT sum(covered), sum(allocated) FROM accounts"
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
        notes=fleet.notes,
    )
