"""Joins readings with holdings, a day at a time, so that memory is bounded and an interrupted
report goes on where it was: each day's sums are kept as a file.

A reading at time *t* stands for the time before it, as counters that are averages do. Its period is
that of its meter; readings of the same series and time are one, and where they contradict each
other it counts as unknown.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from whyidle.cluster.report.series import SERIES
from whyidle.cluster.report.tables import run_query
from whyidle.model.documents.fleet import HELD_BYTES
from whyidle.model.fleet_rows import DAY_MS, HOUR_MS, Progress, Window

if TYPE_CHECKING:
    import duckdb

CONTRADICTION: Final = 0.1
"""readings of one GPU and time that differ by more than this share contradict each other; rounding
and averages over slightly different periods differ by less"""
VERSION: Final = "1"
"""of the sums of a day"""


def sum_days(
    connection: duckdb.DuckDBPyConnection,
    window: Window,
    *,
    version: str,
    work: Path,
    now_ms: int,
    progress: Progress,
) -> None:
    """Make the view ``hours``: what each holding's GPUs did in each hour.

    Args:
        connection: with ``readings``, ``holdings`` and ``routes``.
        window: what is asked about.
        version: text that changes with the content of the meters.
        work: where the sums of each day are kept.
        now_ms: the present; sums of a day that has not ended are made again.
        progress: called with days done and all days.
    """
    days = _split_days(window)
    files = []
    for number, day in enumerate(days):
        progress(number, len(days))
        slots = _make_slots(connection, day)
        key = hashlib.sha256(f"{VERSION}\0{version}\0{day}\0{slots}".encode()).hexdigest()[:20]
        file = work / f"day-{key}.parquet"
        if not file.exists() or day.end_ms > now_ms - HOUR_MS:
            draft = file.with_suffix(".draft")
            run_query(connection, f"COPY ({_DAY}) TO '{draft}' (FORMAT parquet)", *_bounds(day))
            draft.replace(file)
        files.append(str(file))
    progress(len(days), len(days))
    listed = ", ".join(f"'{name}'" for name in files)
    connection.execute(f"CREATE OR REPLACE VIEW hours AS SELECT * FROM read_parquet([{listed}])")


def _bounds(day: Window) -> Sequence[int]:
    return day.start_ms, day.end_ms


def _split_days(window: Window) -> list[Window]:
    """The days of the window, in UTC."""
    cuts = range(window.start_ms - window.start_ms % DAY_MS + DAY_MS, window.end_ms, DAY_MS)
    edges = [window.start_ms, *cuts, window.end_ms]
    return [Window(low, high) for low, high in pairwise(edges) if low < high]


def _make_slots(connection: duckdb.DuckDBPyConnection, day: Window) -> str:
    """Make the table ``slots``: which series belongs to which holding in which hour of the day;
    return a text that changes with it."""
    run_query(
        connection,
        f"""
        CREATE OR REPLACE TABLE slots AS
        WITH parts AS (
          SELECT hold, shared, greatest(start_ms, {day.start_ms}) AS low,
            least(end_ms, {day.end_ms}) AS high
          FROM holdings WHERE start_ms < {day.end_ms} AND end_ms > {day.start_ms}
        ), hours AS (
          SELECT hold, shared, low, high, unnest(range(low // {HOUR_MS},
            (high - 1) // {HOUR_MS} + 1)) AS hour FROM parts
        )
        SELECT series, meter, hold, shared, CAST(hour AS INTEGER) AS hour, low, high
        FROM hours JOIN routes USING (hold)
        """,
    )
    ((count, digest),) = run_query(
        connection,
        "SELECT count(*), bit_xor(hash(series, hold, shared, hour, low, high)) FROM slots",
    )
    return f"{count}:{digest}"


_DAY: Final = f"""
WITH clean AS (
  SELECT {SERIES} AS series, time_ms, count(*) AS copies, count(busy) AS measured,
    max(CASE WHEN busy BETWEEN 0 AND 1.001 THEN least(busy, 1) END) AS busy,
    max(busy) - min(busy) AS spread,
    count(*) FILTER (NOT busy BETWEEN 0 AND 1.001) AS impossible,
    max(sm) AS sm, max(memory_bytes) AS memory_bytes, max(capacity_bytes) AS capacity_bytes,
    max(power_w) AS power_w
  FROM readings WHERE time_ms > ? AND time_ms <= ? GROUP BY ALL
), judged AS (
  SELECT *, busy IS NULL OR spread > {CONTRADICTION} AS bad, busy = 0 AS idle FROM clean
)
SELECT hold, slots.series, meter, hour,
  count(*) AS n,
  sum(measured - 1) FILTER (measured > 1) AS duplicates,
  count(*) FILTER (spread > {CONTRADICTION}) AS contradictory,
  sum(impossible) AS impossible,
  count(*) FILTER (busy IS NULL) AS partial,
  count(*) FILTER (NOT bad AND idle AND memory_bytes IS NULL) AS idle_unjudged,
  count(*) FILTER (NOT bad AND NOT idle AND shared) AS shared_busy,
  count(*) FILTER (NOT bad AND (NOT idle AND NOT shared OR idle AND memory_bytes IS NOT NULL))
    AS known,
  count(*) FILTER (NOT bad AND idle AND memory_bytes > {HELD_BYTES}) AS held,
  count(*) FILTER (NOT bad AND idle AND memory_bytes <= {HELD_BYTES}) AS reserved,
  coalesce(sum(busy) FILTER (NOT bad AND NOT idle AND NOT shared), 0) AS useful,
  sum(busy) FILTER (NOT bad) AS busy_sum, count(*) FILTER (NOT bad) AS busy_n,
  max(busy) AS busy_max,
  sum(sm) AS sm_sum, count(sm) AS sm_n, max(sm) AS sm_max,
  max(memory_bytes) AS memory_max, max(capacity_bytes) AS capacity,
  sum(power_w) AS power_sum, count(power_w) AS power_n,
  max(time_ms) AS last_ms, max(time_ms) FILTER (NOT bad AND NOT idle) AS last_busy_ms
FROM judged JOIN slots
  ON slots.series = judged.series AND slots.hour = (judged.time_ms - 1) // {HOUR_MS}
WHERE time_ms > low AND time_ms <= high
GROUP BY hold, slots.series, meter, hour
"""
"""the sums of one day, from ``readings`` and ``slots``; a sample with an impossible busy share is
one without"""

COUNTED: Final = {
    "duplicates": "duplicate readings",
    "contradictory": "contradictory readings",
    "impossible": "readings with a busy share beyond 0 to 1",
    "partial": "readings without a busy share",
    "idle_unjudged": "idle readings without memory, which are unknown",
    "shared_busy": "readings of shared GPUs, which do not say whose work it was",
}


def count_readings(connection: duckdb.DuckDBPyConnection) -> Counter[str]:
    """How many readings of jobs were merged or could not be judged, by reason."""
    sums = ", ".join(f"sum({column})" for column in COUNTED)
    (row,) = run_query(connection, f"SELECT {sums} FROM hours")
    return +Counter({text: int(n or 0) for text, n in zip(COUNTED.values(), row, strict=True)})
