"""Asks the ledgers and meters of a fleet, and joins what they say.

Joins readings with holdings, a day at a time, so that memory is bounded and an interrupted
report goes on where it was: each day's sums are kept as a file.

A reading at time *t* stands for the time before it, as counters that are averages do. Its period is
that of its meter; readings of the same series and time are one, and where they contradict each
other it counts as unknown.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from whyidle import catalog
from whyidle.cluster.report import gpu_hours, series, tables
from whyidle.cluster.report.series import SERIES
from whyidle.cluster.report.tables import run_query
from whyidle.errors import InputError, OutputError, UsageError
from whyidle.model.documents.fleet import HELD_BYTES
from whyidle.model.fleet_rows import (
    DAY_MS,
    HOUR_MS,
    READING_COLUMNS,
    Ledger,
    LedgerRows,
    Meter,
    MeterTable,
    Progress,
    Window,
)

if TYPE_CHECKING:
    import duckdb

CONTRADICTION: Final = 0.1
"""readings of one GPU and time that differ by more than this share contradict each other; rounding
and averages over slightly different periods differ by less"""
VERSION: Final = "2"
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


LABELS = "labels"
"""ledger that is made from the labels of the readings"""


class FleetTables(msgspec.Struct, kw_only=True):
    """A fleet's tables in DuckDB (``jobs``, ``holdings``, ``nodes``, ``causes``, ``hours``,
    ``accounts``), and what is known about their quality."""

    connection: duckdb.DuckDBPyConnection
    window: Window
    ledgers: list[str]
    meters: list[str]
    periods_ms: list[int]
    counts: Counter[str]
    notes: list[str]
    disagreeing_hours: int


def read_fleet(
    ledgers: Sequence[str],
    meters: Sequence[str],
    window: Window,
    *,
    work: Path,
    progress: Progress,
    now_ms: int | None = None,
) -> FleetTables:
    """Read ledgers and meters, each ``NAME`` or ``NAME:WHERE``, and join them.

    Raises:
        UsageError: a name is unknown.
        InputError: one of them cannot be read.
        OutputError: ``work`` cannot be written.
    """
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"Cannot write {work}.", why=f"{error.strerror or error}.") from error
    now = int(time.time() * 1000) if now_ms is None else now_ms
    rows = read_ledgers(ledgers, window)
    found = [_read_meter(text, window, work, progress) for text in meters]
    connection = tables.connect(work)
    tables.load_rows(connection, rows)
    periods, version = _prepare_meters(connection, found, window, work, rows)
    if LABELS in ledgers:
        series.take_holdings_from_labels(connection, periods)
    if tables.run_query(connection, "SELECT count(*) FROM jobs") == [(0,)]:
        if tables.run_query(connection, "SELECT count(*) FROM series") != [(0,)]:
            raise InputError(
                "No job is known for these readings.",
                why="They have no job label, and no ledger names a job of this window.",
                hint="Name the ledger that knows the jobs: --ledger slurm, or --ledger csv:FILE",
            )
        raise InputError(
            "No job ran in this window.",
            hint="Use a longer window: --since 30d, or --since all for old files",
        )
    tables.name_causes(connection)
    window = gpu_hours.clip_holdings(connection, window, now)
    if overlaps := gpu_hours.count_overlaps(connection):
        rows.counts["whole GPUs that two jobs hold at once"] += overlaps
    series.route_series(connection)
    if found:
        rows.notes += series.name_unmatched_nodes(connection)
    sum_days(connection, window, version=version, work=work, now_ms=now, progress=progress)
    rows.counts.update(count_readings(connection))
    disagreeing = gpu_hours.sum_holdings(connection, periods)
    return FleetTables(
        connection=connection, window=window, ledgers=list(ledgers), meters=list(meters),
        periods_ms=periods, counts=rows.counts, notes=rows.notes, disagreeing_hours=disagreeing,
    )  # fmt: skip


def read_ledgers(ledgers: Sequence[str], window: Window) -> LedgerRows:
    """Read ledgers, each ``NAME`` or ``NAME:WHERE``, and join what they know.

    Raises:
        UsageError: a name is unknown.
        InputError: one of them cannot be read.
    """
    rows = LedgerRows()
    for text in ledgers:
        if text != LABELS:
            _merge_rows(rows, _read_ledger(text, window))
    return rows


def _prepare_meters(
    connection: duckdb.DuckDBPyConnection,
    meters: Sequence[MeterTable],
    window: Window,
    work: Path,
    rows: LedgerRows,
) -> tuple[list[int], str]:
    if not meters:
        rows.notes.append("No meter was given: how busy GPUs were is unknown.")
    present = list(meters) or [_EMPTY]
    series.prepare_readings(connection, present, work, window)
    rows.counts.update(series.find_series(connection, window))
    for meter in meters:
        rows.counts.update(meter.counts)
        rows.notes += meter.notes
    version = "\0".join(meter.version for meter in present)
    return series.measure_periods(connection, len(present)), version


_EMPTY = MeterTable(
    query="SELECT " + ", ".join(
        f"CAST(NULL AS {kind}) AS {name}" for name, kind in READING_COLUMNS.items()
    ) + " WHERE false",
    is_parquet=True,
    version="",
)  # fmt: skip


def _read_ledger(text: str, window: Window) -> LedgerRows:
    name, where = split_name(text, "ledgers")
    ledger: Ledger = catalog.load_ledgers()[name]
    return ledger.read(where, window)


def _read_meter(text: str, window: Window, work: Path, progress: Progress) -> MeterTable:
    name, where = split_name(text, "meters")
    meter: Meter = catalog.load_meters()[name]
    return meter.read(where, window, work, progress)


def split_name(text: str, folder: str) -> tuple[str, str]:
    """The name of a ledger or meter, and what follows it.

    Raises:
        UsageError: the name is unknown.
    """
    name, _, where = text.partition(":")
    name = name.replace("-", "_")
    known = catalog.load_ledgers() if folder == "ledgers" else catalog.load_meters()
    if name not in known:
        listed = ", ".join(sorted([*known, *([LABELS] if folder == "ledgers" else [])]))
        raise UsageError(
            f"There is no {folder.rstrip('s')} {name!r}.",
            why=f"Known: {listed.replace('_', '-')}.",
            hint=f"--{folder.rstrip('s')} csv:FILE",
        )
    return name, where


def _merge_rows(rows: LedgerRows, others: LedgerRows) -> None:
    """Add the rows of another ledger. A job that an earlier ledger has, by its name or by the name
    that meters use, is left out, and its causes are kept."""
    known = {job.job for job in rows.jobs} | {holding.label for holding in rows.holdings}
    pods = {holding.label.partition("/")[2] for holding in rows.holdings} - {""}
    known |= {holding.job for holding in others.holdings if holding.node in pods}
    rows.jobs += [job for job in others.jobs if job.job not in known]
    rows.holdings += [holding for holding in others.holdings if holding.job not in known]
    rows.nodes += others.nodes
    rows.causes += others.causes
    rows.counts.update(others.counts)
    rows.notes += others.notes
