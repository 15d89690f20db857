"""Reads the recording of a watched command and diagnoses it."""

from __future__ import annotations

import errno
import json
import os
import re
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from whyidle.diagnosis import burst_evidence, stepless_run
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.diagnosis.job_starts import JobStart, jobs_of, name_of
from whyidle.diagnosis.process_reading import read_process
from whyidle.errors import BrokenTraceError, InputError, OutputError
from whyidle.model.diagnosis import Diagnosis, RunInfo
from whyidle.model.live import telemetry_lines
from whyidle.model.live.telemetry import Target, Telemetry
from whyidle.model.redaction import redact_command
from whyidle.model.timeline import Timeline
from whyidle.probe import wire
from whyidle.probe.wire import WRITE_FAILED
from whyidle.readers import probe
from whyidle.record import plan_channel, rank_roster
from whyidle.record.launcher import CommandEnd
from whyidle.record.memory_death import add_death
from whyidle.record.monitor import Monitor
from whyidle.record.source_snapshot import keep_sources
from whyidle.store.atomic_write import write_atomic
from whyidle.store.entry import RECORDING
from whyidle.version import __version__

UNTOLD = "why could not be written down"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_REFUSED = re.compile(rf"switched off: {WRITE_FAILED}: \w+: \[Errno (\d+)\]")


def explain_loss(recording: Path, faults: Sequence[str]) -> str:
    """Explain why a process could not write its recording; empty if unknown. A full disk also
    prevents notes on faults, so the disk itself is checked."""
    if is_disk_full(recording):
        return f"No space is left in {recording}"
    refused = next((found for note in faults if (found := _REFUSED.search(note))), None)
    if refused is not None:
        return f"{os.strerror(int(refused[1]))}: {recording}"
    if any(UNTOLD in note for note in faults):
        return f"Nothing more could be written to {recording}"
    return ""


def unreadable_fault(recording: Path) -> str:
    """Describe a fault whose file is empty."""
    full = is_disk_full(recording)
    return f"{UNTOLD} because no space is left in {recording}" if full else UNTOLD


def is_disk_full(folder: Path) -> bool:
    """Whether a write fails for lack of space; free space alone ignores quotas and reserves."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))  # the usual block size of file systems
            file.flush()
    except OSError as error:
        return error.errno in _NO_ROOM
    return False


ENDED = "ended.json"  # the launcher's facts about the command
"""beginning of the note of a process that reached its quota (``whyidle.probe.core.recorder``)"""
TELEMETRY = "telemetry.jsonl"  # readings of the monitor


def note_end(
    recording: Path, run_id: str, command: Sequence[str], ended: CommandEnd | None
) -> None:
    """Write ``ended.json``: the command and how it ended (``None``: it is running)."""
    document = {
        "id": run_id,
        "command": redact_command(command),
        "folder": _current_folder(),
        "started": ended.started if ended else None,
        "duration_s": ended.duration_s if ended else None,
        "exit_status": ended.status if ended else None,
    }
    with suppress(OSError):  # a full disk: the diagnosis lacks these facts
        write_atomic(recording / ENDED, json.dumps(document).encode())


def _current_folder() -> str | None:
    try:
        return str(Path.cwd())
    except OSError:  # it was removed
        return None


def is_running(recording: Path) -> bool:
    """Whether the recorded command is running, according to ``ended.json``."""
    facts = _read_probe_facts(recording)
    return bool(facts) and facts.get("exit_status") is None


def recording_at(path: Path) -> Path | None:
    """The recording at a path, or in the run's folder at a path; None if there is none."""
    for folder in (path, path / RECORDING):
        if (folder / ENDED).is_file() or next(folder.glob("*.facts.json"), None):
            return folder
    return None


def start_monitor(recording: Path, pid: int, period_s: float | None = None) -> Monitor:
    """Create a monitor of the host and the GPUs for a command whose first process is ``pid``."""
    target = Target(pid=pid, environ={**os.environ, "WHYIDLE_RUN": str(recording)})
    return Monitor(target, recording / TELEMETRY, period_s=period_s)


def diagnose_recording(
    recording: Path, process: str | None = None, name: str | None = None
) -> Diagnosis:
    """Diagnose a recording: the first job, or the job of ``process`` (the stem of its files).
    ``name``: what the run is called if it has no command.

    Raises:
        InputError: there is nothing to diagnose.
        OutputError: the recording could not be written.
    """
    jobs = jobs_of(read_recording(recording))
    if not jobs:
        return _diagnose_stepless(recording)
    named = (job for job in jobs if any(Path(r.source.path).stem == process for r in job.ranks))
    found = _diagnose_job(recording, next(named, jobs[0]), alone=len(jobs) == 1)
    if name is None or found.run.command:
        return found
    return msgspec.structs.replace(found, run=msgspec.structs.replace(found.run, job=name))


def diagnose_jobs(recording: Path) -> list[Diagnosis]:
    """Diagnose all jobs of a command, one diagnosis each.

    Raises:
        InputError: there is nothing to diagnose.
        OutputError: the recording could not be written.
    """
    jobs = jobs_of(read_recording(recording))
    if not jobs:
        return [_diagnose_stepless(recording)]
    return [_diagnose_job(recording, job, alone=len(jobs) == 1) for job in jobs]


def _diagnose_stepless(recording: Path) -> Diagnosis:
    facts, faults = _read_probe_facts(recording), notes_on_faults(recording)
    if why := explain_loss(recording, faults):
        raise OutputError(
            "Nothing to diagnose: the recording could not be written.",
            why=f"{why}.",
            hint="Free space, or use a folder on another disk: --store FOLDER",
        )
    timeline = stepless_run.whole_run(recording, facts, read_telemetry(recording), faults)
    if timeline is None:
        raise InputError(
            "Nothing to diagnose: no training step was seen.",
            why=f"{stepless_run.explain_no_steps(None, facts.get('command') or [], faults)}.",
            hint="Mark steps with whyidle.step(), or check the machine with whyidle doctor.",
        )
    known = timeline.process.imported is not None
    run = _run_info(recording, [timeline])
    run = msgspec.structs.replace(
        run, framework=run.framework if known else None, sources=run.sources if known else []
    )
    diagnosis = diagnose_job([timeline], run=run)
    notes = [
        *stepless_run.advise_no_steps(timeline, faults),
        *plan_channel.describe_applied(recording),
        *faults,
    ]
    return add_death(_with_notes(diagnosis, notes), recording)


def _diagnose_job(recording: Path, job: JobStart, *, alone: bool) -> Diagnosis:
    run = _run_info(recording, job.ranks)
    run = run if alone else msgspec.structs.replace(run, job=name_of(job))
    diagnosis = diagnose_job(job.ranks, run=run)
    status = _read_probe_facts(recording).get("exit_status")
    notes = rank_roster.notes_on(recording, job.ranks, status)
    notes += rank_roster.notes_on_starts(job.ranks, job.others)
    notes += plan_channel.describe_applied(recording)
    return add_death(_with_notes(diagnosis, [*notes, *notes_on_faults(recording)]), recording)


def _with_notes(diagnosis: Diagnosis, notes: list[str]) -> Diagnosis:
    notes = [*notes, *diagnosis.coverage.notes]
    coverage = msgspec.structs.replace(diagnosis.coverage, notes=notes)
    return msgspec.structs.replace(diagnosis, coverage=coverage)


def notes_on_faults(recording: Path) -> list[str]:
    """What the probe could not measure in the processes of a recording, a sentence each."""
    counts: dict[str, int] = {}
    for path in sorted(recording.glob("*.faults")):
        with suppress(OSError):
            text = path.read_text(encoding="utf-8", errors="replace")
            for line in text.splitlines() or [unreadable_fault(recording)]:
                counts[line] = counts.get(line, 0) + 1
    many = {line: f" (in {count} processes)" if count > 1 else "" for line, count in counts.items()}
    return [f"{_describe_fault(line)}{many[line]}." for line in counts]


def _describe_fault(fault: str) -> str:
    where, _, error = fault.partition(": ")
    if where == wire.QUOTA_REACHED:
        return f"The recording ended before the job: {error.partition(': ')[2]}"
    return f"A measurement failed and was switched off: {fault}"


def _read_probe_facts(recording: Path) -> dict[str, Any]:
    try:
        document = json.loads((recording / ENDED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def read_recording(recording: Path) -> list[Timeline]:
    """Read all training processes of a recording, sorted by rank, with telemetry and bursts. Stores
    the user's source files with the recording."""
    keep_sources(recording)
    timelines = (
        _read_timeline(recording / f"{pid}.spans") for pid in probe.trained_processes(recording)
    )
    telemetry = read_telemetry(recording)
    ranks = [
        replace(
            timeline, telemetry=telemetry, bursts=burst_evidence.read_bursts(recording, timeline)
        )
        for timeline in timelines
        if timeline is not None
    ]
    return sorted(ranks, key=lambda timeline: (timeline.rank is None, timeline.rank))


def read_telemetry(recording: Path) -> Telemetry | None:
    """Read the telemetry of a recording, even if truncated; None without any."""
    try:
        with (recording / TELEMETRY).open("rb") as lines:
            telemetry = telemetry_lines.read_telemetry(lines)
    except OSError:
        return None
    return telemetry if telemetry.offset_ns is not None else None


def _read_timeline(path: Path) -> Timeline | None:
    try:
        return read_process(path)
    except BrokenTraceError:
        return None  # it trained too briefly to record anything


def _run_info(recording: Path, timelines: list[Timeline]) -> RunInfo:
    facts = _read_probe_facts(recording)
    worlds = [timeline.world_size or 0 for timeline in timelines]
    return RunInfo(
        id=facts.get("id") or recording.parent.name,
        command=facts.get("command"),
        folder=facts.get("folder"),
        started=facts.get("started"),
        duration_s=facts.get("duration_s"),
        exit_status=facts.get("exit_status"),
        framework=timelines[0].framework,
        ranks=max(*worlds, len(timelines)),
        hosts=sorted({timeline.hostname for timeline in timelines if timeline.hostname}),
        whyidle=__version__,
        sources=[Path(timeline.source.path).name for timeline in timelines],
    )
