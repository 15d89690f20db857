"""Runs of whyidle in stores on a shared disk (``store:DIR``, or a list with commas).

A run brings the proven causes of its job's waiting. It belongs to a job of another ledger if it ran
under that job of Slurm, or on the host of that pod; otherwise it is a job of its own, if its device
is a GPU.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from whyidle.cluster.ledgers._fields import parse_time
from whyidle.cluster.ledgers._holdings import add_holdings
from whyidle.errors import InputError, StoreError
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.fleet_rows import FleetJob, JobCause, LedgerRows, Window
from whyidle.store.entry import RECORDING, Entry
from whyidle.store.run_store import Store

_GPUS: Final = ("cuda", "rocm")


def read(where: str, window: Window) -> LedgerRows:
    """The runs that overlap the window."""
    rows = LedgerRows()
    folders = [Path(part) for part in where.split(",") if part]
    if missing := [folder for folder in folders or [Path(".whyidle")] if not folder.is_dir()]:
        raise InputError(f"There is no store {missing[0]}.", hint="--ledger store:DIR")
    for folder in folders or [Path(".whyidle")]:
        for entry, diagnosis in _read_runs(Store(folder), rows):
            _add_run(entry, diagnosis, window, rows)
    return rows


def _read_runs(store: Store, rows: LedgerRows) -> Iterator[tuple[Entry, Diagnosis]]:
    try:
        entries = store.list_runs()
    except StoreError as error:
        raise InputError(error.what, why=error.why) from error
    for entry in entries:
        if entry.meta is None:
            rows.counts["runs that cannot be read"] += 1
        elif entry.meta.state != "recording":
            try:
                yield entry, store.read_diagnosis(entry)
            except StoreError:
                rows.counts["runs that cannot be read"] += 1


def _add_run(entry: Entry, diagnosis: Diagnosis, window: Window, rows: LedgerRows) -> None:
    run, device = diagnosis.run, diagnosis.device
    try:
        start = parse_time(run.started or "")
    except ValueError:
        start = None
    if start is None or run.duration_s is None:
        return  # an explained trace: when it ran is not known
    end = start + round(run.duration_s * 1000)
    if end <= window.start_ms or start >= window.end_ms:
        return
    host = run.hosts[0] if run.hosts else None
    name = _scheduled_name(entry.path / RECORDING) or entry.id
    rows.causes += list(_list_causes(entry.id, name, host, diagnosis))
    job = FleetJob(
        job=name,
        ledger="store",
        state="failed" if run.exit_status else "completed",
        name=" ".join((run.command or [])[:4]) or None,
        start_ms=start,
        end_ms=end,
        gpus=device.count if device.kind in _GPUS else 0,
        gpu_type=device.name,
        nodes=len(run.hosts) or None,
    )
    add_holdings(rows, job, name, [] if host is None else run.hosts)


def _scheduled_name(recording: Path) -> str | None:
    """The job of Slurm that the run was part of."""
    try:
        path = min(recording.glob("*.facts.json"))
        environment = json.loads(path.read_text(encoding="utf-8"))["environment"]
        return str(environment["SLURM_JOB_ID"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _list_causes(run: str, job: str, host: str | None, diagnosis: Diagnosis) -> Iterator[JobCause]:
    """Findings that cost time in which the device waited."""
    waiting = 1.0 - diagnosis.attribution.compute
    for finding in diagnosis.findings:
        if finding.severity != "info" and finding.bucket != "compute":
            yield JobCause(
                job=job,
                host=host,
                run=run,
                cause=finding.cause,
                title=finding.title or finding.headline,
                lost=max(0.0, finding.expected_loss),
                waiting=max(0.0, waiting),
                fix=finding.fixes[0].summary if finding.fixes else None,
            )
