"""Sums of a fleet: of all of it, by user, job, partition or node, by cause; and its capacity."""

from __future__ import annotations

from typing import Final

from whyidle.cluster.report.job_rows import SUMMED, fetch_rows, make_account
from whyidle.cluster.report.reading import FleetTables
from whyidle.cluster.report.tables import run_query
from whyidle.model.documents.fleet import Account, Capacity, CauseRow, GroupRow, Prices

KEYS: Final = {"user": '"user"', "partition": '"partition"', "node": "node", "job": "job"}
"""table of groups -> its column"""


def sum_all(fleet: FleetTables, prices: Prices) -> tuple[Account, int]:
    """All allocated time, and the number of jobs that held GPUs."""
    query = f"SELECT count(DISTINCT job) AS jobs, {SUMMED} FROM priced"
    (row,) = fetch_rows(fleet.connection, query)
    return make_account(row, prices), row["jobs"]


def group_rows(fleet: FleetTables, prices: Prices, key: str) -> list[GroupRow]:
    """Sums by a column, those with the most waste first."""
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
        LIMIT 500
        """,
    )
    return [
        GroupRow(
            key=row["key"], jobs=row["jobs"], busy=row["busy"], coverage=row["coverage"] or 0.0,
            account=make_account(row, prices),
        )
        for row in rows
    ]  # fmt: skip


def cause_rows(fleet: FleetTables, job: str | None = None) -> list[CauseRow]:
    """Starved time by cause: a job's starved time is divided in the proportion of what its findings
    cost; what they do not explain has no proven cause. ``job``: only of this one."""
    query = """
    WITH starved AS (SELECT job, CAST(sum(starved) AS BIGINT) AS ms FROM accounts
      WHERE ?::VARCHAR IS NULL OR job = ? GROUP BY job),
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
        for row in fetch_rows(fleet.connection, query, job, job)
    ]  # fmt: skip
    ((total, jobs),) = run_query(
        fleet.connection,
        "SELECT CAST(sum(starved) AS BIGINT), count(DISTINCT job) FILTER (starved > 0 AND job NOT "
        "IN (SELECT job FROM causes)) FROM accounts WHERE ?::VARCHAR IS NULL OR job = ?",
        *(job, job),
    )
    rest = int(total or 0) - sum(row.gpu_ms for row in rows)
    if rest:
        title = "no cause proven: run the jobs under `whyidle run`"
        hours = rest / 3.6e6
        last = CauseRow(cause=None, title=title, gpu_ms=rest, gpu_hours=hours, jobs=jobs, fix=None)
        rows.append(last)
    return rows


def measure_capacity(fleet: FleetTables) -> Capacity:
    """What the cluster has, and what its jobs ask for."""
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
