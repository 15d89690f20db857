"""From the sums of hours to allocated time by state, in whole GPU-milliseconds.

All parts are integers, and what is not known is the rest: the states of a holding add up exactly to
what was allocated, and so does every sum of holdings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from whyidle.cluster.report.tables import run_query
from whyidle.model.fleet_rows import ENDED_BY_CLUSTER, Window

if TYPE_CHECKING:
    import duckdb

DISAGREEMENT: Final = 0.2
"""means of an hour of the same GPU by two meters that differ by more than this share do not agree;
averages over periods of other lengths differ by less"""


def clip_holdings(connection: duckdb.DuckDBPyConnection, window: Window, now_ms: int) -> Window:
    """Cut the holdings to the window and to the present. A window that begins with the epoch, which
    is how all of a ledger is asked for, is cut to the holdings and returned."""
    end = min(window.end_ms, now_ms)
    run_query(
        connection,
        f"CREATE OR REPLACE TABLE holdings AS SELECT * REPLACE (greatest(start_ms, "
        f"{window.start_ms}) AS start_ms, least(end_ms, {end}) AS end_ms) FROM holdings "
        f"WHERE start_ms < {end} AND end_ms > {window.start_ms}",
    )
    ((first, last),) = run_query(connection, "SELECT min(start_ms), max(end_ms) FROM holdings")
    return window if window.start_ms or first is None else Window(first, max(last, first + 1))


def count_overlaps(connection: duckdb.DuckDBPyConnection) -> int:
    """Whole GPUs that the ledger gives to two jobs at once."""
    ((count,),) = run_query(
        connection,
        "SELECT count(*) FROM (SELECT start_ms < max(end_ms) OVER (PARTITION BY node, gpu "
        "ORDER BY start_ms, hold ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS taken "
        "FROM holdings WHERE gpu IS NOT NULL AND milli = 1000) WHERE taken",
    )
    return int(count)


def sum_holdings(connection: duckdb.DuckDBPyConnection, periods: Sequence[int]) -> int:
    """Make the table ``accounts``: each holding with its time by state. Return the GPU-hours in
    which two meters disagree; of several meters the one with most of the hour's time is used."""
    period = "CASE meter " + " ".join(f"WHEN {n} THEN {p}" for n, p in enumerate(periods)) + " END"
    ((disagreeing,),) = run_query(connection, _DISAGREEING)
    if len(periods) > 1:
        run_query(connection, _CHOSEN.format(period=period))
        run_query(connection, "CREATE OR REPLACE VIEW hours AS SELECT * FROM chosen")
    run_query(connection, _ACCOUNTS.format(period=period, lost=_LOST))
    return int(disagreeing or 0)


_LOST: Final = ("failed", *ENDED_BY_CLUSTER)
"""states of jobs whose results are lost, as far as is known"""
_CHOSEN: Final = """
CREATE OR REPLACE TABLE chosen AS
WITH meters AS (
  SELECT hold, hour, meter, sum(n * {period}) AS sampled, sum(known * {period}) AS known
  FROM hours GROUP BY ALL
), best AS (
  SELECT hold, hour, arg_max(meter, (known, sampled, -CAST(meter AS INTEGER))) AS meter
  FROM meters GROUP BY ALL
)
SELECT hours.* FROM hours JOIN best USING (hold, hour, meter)
"""
_DISAGREEING: Final = f"""
WITH means AS (
  SELECT hold, hour, meter, sum(busy_sum) / nullif(sum(busy_n), 0) AS busy
  FROM hours GROUP BY ALL
)
SELECT count(*) FROM (
  SELECT 1 FROM means GROUP BY hold, hour HAVING max(busy) - min(busy) > {DISAGREEMENT})
"""
_ACCOUNTS: Final = """
CREATE OR REPLACE TABLE accounts AS
WITH sums AS (
  SELECT hold, sum(n) AS n, sum(n * {period}) AS sampled, max({period}) AS period,
    sum(known) AS known, sum(held) AS held, sum(reserved) AS reserved, sum(useful) AS useful,
    sum(power_sum) / nullif(sum(power_n), 0) AS power_w
  FROM hours GROUP BY hold
), spans AS (
  SELECT holdings.*, sums.* EXCLUDE (hold), (end_ms - start_ms) * gpus AS span,
    milli * (end_ms - start_ms) * gpus // 1000 AS allocated
  FROM holdings LEFT JOIN sums USING (hold)
), covers AS (
  -- samples that miss less than one period per GPU cover all of it: its ends lie between samples
  SELECT *, CASE WHEN n IS NULL THEN 0 WHEN sampled > span - period * gpus THEN allocated
    ELSE least(allocated, milli * sampled // 1000) END AS covered FROM spans
), parts AS (
  SELECT *, CAST(coalesce(covered::HUGEINT * known // n, 0) AS BIGINT) AS known_ms,
    CAST(coalesce(covered::HUGEINT * held // n, 0) AS BIGINT) AS held_ms,
    CAST(coalesce(covered::HUGEINT * reserved // n, 0) AS BIGINT) AS reserved_ms,
    CAST(floor(coalesce(covered * useful / n, 0)) AS BIGINT) AS useful_ms
  FROM covers
), judged AS (
  SELECT parts.*, jobs.state IN {lost} AS lost, jobs.state = 'failed' AS failed,
    jobs.job IN (SELECT job FROM causes) AS watched
  FROM parts JOIN jobs USING (job)
)
SELECT hold, job, node, gpu, gpus, milli, start_ms, end_ms, allocated, covered, power_w,
  CASE WHEN lost THEN 0 ELSE least(useful_ms, known_ms - held_ms - reserved_ms) END AS useful,
  CASE WHEN lost THEN 0 WHEN watched THEN
    known_ms - reserved_ms - least(useful_ms, known_ms - held_ms - reserved_ms)
    ELSE known_ms - held_ms - reserved_ms - least(useful_ms, known_ms - held_ms - reserved_ms)
  END AS starved,
  CASE WHEN lost OR watched THEN 0 ELSE held_ms END AS idle_held,
  CASE WHEN lost THEN 0 ELSE reserved_ms END AS idle_reserved,
  CASE WHEN failed THEN allocated ELSE 0 END AS failed,
  CASE WHEN lost AND NOT failed THEN allocated ELSE 0 END AS cluster,
  CASE WHEN lost THEN 0 ELSE allocated - known_ms END AS unknown,
  power_w * covered / 3.6e9 AS energy_kwh
FROM judged
"""
