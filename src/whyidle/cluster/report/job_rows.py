"""The jobs of a fleet: what each was given, what it used, and what became of its time."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from whyidle.cluster.report.reading import FleetTables
from whyidle.cluster.report.tables import run_query
from whyidle.model.documents.fleet import (
    FLEET_STATES,
    UNUSED_BUSY,
    WASTE,
    Account,
    FleetJobRow,
    Prices,
)

if TYPE_CHECKING:
    import duckdb

_SUMS: Final = (
    *("allocated", "useful", "starved", "idle_held", "idle_reserved", "failed", "cluster"),
    "unknown",
)
SUMMED: Final = (
    ", ".join(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in _SUMS)
    + ", sum(energy_kwh) AS energy_kwh, sum(allocated / 3.6e6 * price) AS cost, "
    "sum((starved + idle_held + idle_reserved + failed) / 3.6e6 * price) AS wasted_cost, "
    "sum(covered) / nullif(sum(allocated), 0) AS coverage"
)
"""sums of rows of ``priced``"""


def make_job_tables(fleet: FleetTables, prices: Prices) -> None:
    """Make the tables ``priced`` (accounts with the columns of their jobs and a price) and ``uses``
    (what each job's GPUs showed)."""
    connection = fleet.connection
    price = "CASE coalesce(gpu_type, '')"
    for kind, amount in prices.gpu_hour.items():
        if kind:
            price += f" WHEN '{kind.replace(chr(39), chr(39) * 2)}' THEN {amount}"
    price = f"{price} WHEN '\0' THEN 0 ELSE {prices.gpu_hour.get('', 'NULL')} END"
    run_query(
        connection,
        f"""CREATE OR REPLACE TABLE priced AS SELECT accounts.*, ledger, state, "name", "user",
        account, "partition", gpu_type, profile, CAST({price} AS DOUBLE) AS price
        FROM accounts JOIN jobs USING (job)""",
    )
    run_query(connection, _USES)


_USES: Final = f"""
CREATE OR REPLACE TABLE uses AS
WITH devices AS (
  SELECT job, series, max(busy_max) AS busy_max, sum(n) AS n FROM hours
  JOIN holdings USING (hold) GROUP BY ALL
), counted AS (
  SELECT job, count(*) FILTER (busy_max < {UNUSED_BUSY}) AS unused FROM devices GROUP BY job
)
SELECT job, sum(busy_sum) / nullif(sum(busy_n), 0) AS busy, max(busy_max) AS busy_peak,
  sum(sm_sum) / nullif(sum(sm_n), 0) AS sm, max(sm_max) AS sm_peak,
  quantile_cont(memory_max, 0.95) AS memory_p95, max(capacity) AS capacity,
  sum(power_sum) / nullif(sum(power_n), 0) AS power_w, max(last_ms) AS last_ms,
  coalesce(max(last_busy_ms), min(holdings.start_ms)) AS last_busy_ms,
  any_value(counted.unused) AS unused
FROM hours JOIN holdings USING (hold) JOIN counted USING (job) GROUP BY job
"""


def make_account(row: dict[str, Any], prices: Prices) -> Account:
    """An account from the columns of ``SUMMED``."""
    parts = {state: int(row[state.replace("-", "_")] or 0) for state in FLEET_STATES}
    allocated, wasted = int(row["allocated"] or 0), sum(parts[state] for state in WASTE)
    hours = {"allocated": allocated / 3.6e6, "wasted": wasted / 3.6e6}
    energy, rate = row["energy_kwh"], prices.kilowatt_hour
    return Account(
        allocated_gpu_ms=allocated,
        gpu_ms=parts,
        gpu_hours={**hours, **{state: part / 3.6e6 for state, part in parts.items()}},
        cost=row["cost"],
        wasted_cost=row["wasted_cost"],
        energy_kwh=energy,
        energy_cost=None if energy is None or rate is None else energy * rate,
    )


def fetch_rows(
    connection: duckdb.DuckDBPyConnection, query: str, *values: object
) -> list[dict[str, Any]]:
    """The rows of a query by name of column."""
    rows = run_query(connection, query, *values)
    names = [column[0] for column in connection.description or []]
    return [dict(zip(names, row, strict=True)) for row in rows]


def list_jobs(
    fleet: FleetTables,
    prices: Prices,
    *,
    limit: int | None = None,
    user: str | None = None,
    job: str | None = None,
) -> list[FleetJobRow]:
    """The jobs with the most waste first, at most ``limit``, of one user or of all; or the one of
    an id, its scheduler's or the one that meters use, with its other attempts."""
    query = f"""
    WITH sums AS (
      SELECT job, {SUMMED}, list_sort(list(DISTINCT node) FILTER (node IS NOT NULL)) AS held_nodes
      FROM priced GROUP BY job
    ), proven AS (
      SELECT job, arg_max(cause, lost) AS cause, arg_max(run, lost) AS run FROM causes GROUP BY job
    )
    SELECT jobs.*, sums.* EXCLUDE (job), uses.* EXCLUDE (job), proven.* EXCLUDE (job)
    FROM sums JOIN jobs USING (job) LEFT JOIN uses USING (job) LEFT JOIN proven USING (job)
    WHERE (?::VARCHAR IS NULL OR "user" = ?) AND (?::VARCHAR IS NULL OR job = ?
      OR job IN (SELECT job FROM holdings WHERE label = ?))
    ORDER BY starved + idle_held + idle_reserved + failed DESC, allocated DESC, job
    {"" if limit is None else f"LIMIT {limit}"}
    """
    return [
        _make_row(row, prices)
        for row in fetch_rows(fleet.connection, query, user, user, job, job, job)
    ]


def _make_row(row: dict[str, Any], prices: Prices) -> FleetJobRow:
    length = None
    if row["cpu_s"] is not None and row["start_ms"] and row["end_ms"]:
        length = (row["end_ms"] - row["start_ms"]) / 1000
    idle = row["last_busy_ms"] if row["last_ms"] != row["last_busy_ms"] else None
    memory, unused = row["memory_p95"], row["unused"]
    return FleetJobRow(
        job=row["job"], ledger=row["ledger"], state=row["state"], name=row["name"],
        user=row["user"], account_name=row["account"], partition=row["partition"],
        nodes=row["held_nodes"] or [], start=format_moment(row["start_ms"]),
        end=format_moment(row["end_ms"]), limit_s=row["limit_s"], gpus=row["gpus"],
        share=row["milli"] / 1000, profile=row["profile"], gpu_type=row["gpu_type"],
        cpus=row["cpus"], cores_used=row["cpu_s"] / length if length else None,
        busy=row["busy"], busy_peak=row["busy_peak"], sm=row["sm"], sm_peak=row["sm_peak"],
        memory_p95_bytes=None if memory is None else round(memory),
        capacity_bytes=row["capacity"], power_w=row["power_w"], coverage=row["coverage"] or 0.0,
        idle_since=format_moment(idle), last_sample=format_moment(row["last_ms"]),
        unused_gpus=unused, cause=row["cause"], run=row["run"],
        account=make_account(row, prices), host_memory_bytes=row["memory_bytes"],
        host_memory_used_bytes=row["memory_used_bytes"],
    )  # fmt: skip


def format_moment(time_ms: int | None) -> str | None:
    """A time in ISO form, in UTC."""
    if time_ms is None:
        return None
    moment = datetime.fromtimestamp(time_ms / 1000, timezone.utc)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
