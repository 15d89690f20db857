"""Asks the ledgers and meters of a fleet, and joins what they say."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from whyidle import catalog
from whyidle.cluster.report import day_sums, series, tables, totals
from whyidle.errors import InputError, OutputError, UsageError
from whyidle.model.fleet_rows import (
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
        raise InputError("No job ran in this window.", hint="Use a longer window: --since 30d")
    tables.name_causes(connection)
    window = totals.clip_holdings(connection, window, now)
    if overlaps := totals.count_overlaps(connection):
        rows.counts["whole GPUs that two jobs hold at once"] += overlaps
    series.route_series(connection)
    if found:
        rows.notes += series.name_unmatched_nodes(connection)
    day_sums.sum_days(connection, window, version=version, work=work, now_ms=now, progress=progress)
    rows.counts.update(day_sums.count_readings(connection))
    disagreeing = totals.sum_holdings(connection, periods)
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
