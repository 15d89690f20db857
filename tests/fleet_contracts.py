"""What every ledger and meter of a fleet must keep: ``check_ledger`` and ``check_meter``."""

from __future__ import annotations

from pathlib import Path

import msgspec

from whyidle.cluster.report import series, tables
from whyidle.model.fleet_rows import (
    JOB_STATES,
    READING_COLUMNS,
    WHOLE,
    Ledger,
    LedgerRows,
    Meter,
    MeterTable,
    Window,
)


def _ignore(done: int, total: int) -> None:  # progress that nobody sees
    pass


def check_ledger(ledger: Ledger, where: str, window: Window) -> LedgerRows:
    """Read it, and check its rows; return them."""
    assert ledger.__doc__, "a ledger documents where it reads"
    rows = ledger.read(where, window)
    names = [job.job for job in rows.jobs]
    assert len(names) == len(set(names)), "a job is listed once"
    known = set(names)
    for job in rows.jobs:
        assert job.state in JOB_STATES
        assert job.gpus >= 0
        assert 0 < job.milli <= WHOLE
    for holding in rows.holdings:
        assert holding.job in known, "a holding belongs to a job of the ledger"
        assert holding.start_ms < holding.end_ms
        assert holding.gpus > 0
        assert holding.gpu is None or holding.gpus == 1
        assert holding.label
    for text in rows.notes:
        assert text.endswith("."), "notes are sentences"
    assert all(count >= 0 for count in rows.counts.values())
    msgspec.json.encode(rows.jobs)  # what goes into tables
    return rows


def check_meter(meter: Meter, where: str, window: Window, work: Path) -> MeterTable:
    """Read it, and check the columns and ranges of its query; return it."""
    assert meter.__doc__, "a meter documents where it reads"
    table = meter.read(where, window, work, _ignore)
    assert table.version, "copies are made again when the content changes"
    connection = tables.connect(work)
    described = tables.run_query(connection, f"DESCRIBE {table.query}")
    assert {row[0]: row[1] for row in described} == dict(READING_COLUMNS)
    series.prepare_readings(connection, [table], work, window)
    ((count, timed, low, high),) = tables.run_query(
        connection, "SELECT count(*), count(time_ms), min(busy), max(busy) FROM readings"
    )
    assert count, "the example has readings"
    assert timed, "and times"
    assert low is None or 0 <= low <= high <= 1, "busy is a share"
    connection.close()
    again = meter.read(where, window, work, _ignore)
    assert again.query == table.query, "the same input gives the same query"
    return table
