"""Looks at a process that runs already, and diagnoses what was seen."""

from __future__ import annotations

import socket
import tempfile
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from whyidle.engine.attachment.outside_recording import OutsideRecording, make_recording
from whyidle.engine.attachment.stack_look import RATE_HZ, StackLook, find_pyspy, look_at_stacks
from whyidle.engine.attachment.target_process import TargetProcess
from whyidle.engine.attachment.thread_clocks import ThreadClocks
from whyidle.engine.attachment.window_wording import word_by_second
from whyidle.engine.diagnosis.diagnose import diagnose_job
from whyidle.engine.recording.monitor import Monitor
from whyidle.engine.recording.recording_diagnosis import TELEMETRY, read_telemetry
from whyidle.importers.probe import blank_timeline
from whyidle.model.diagnosis import Diagnosis, RunInfo
from whyidle.model.process_facts import Stepless
from whyidle.model.telemetry import Target, Telemetry
from whyidle.version import __version__


def attach_to(target: TargetProcess, seconds: float) -> Diagnosis:
    """Look at a process for some seconds and diagnose what was seen.

    Raises:
        InputError: it ended before it was seen, is no Python, or may not be read.
        MissingExtraError: py-spy is not installed.
    """
    find_pyspy()
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    with tempfile.TemporaryDirectory(prefix="whyidle-attach-") as folder:
        monitor = Monitor(Target(pid=target.pid), Path(folder) / TELEMETRY)
        with monitor, ThreadClocks(target.pids) as clocks:
            look = look_at_stacks(target.pid, seconds)
        telemetry = read_telemetry(Path(folder))
    recording = make_recording(target, look, clocks)
    run = RunInfo(
        id=f"attach-{target.pid}",
        command=target.command,
        folder=target.folder,
        started=started,
        duration_s=seconds,
        exit_status=None,
        framework=recording.timeline.framework if recording else None,
        ranks=1,
        hosts=[socket.gethostname()],
        whyidle=__version__,
        sources=[f"process {target.pid}"],
    )
    if recording is None:
        return _diagnose_no_training(target, look, telemetry, run)
    timeline = replace(recording.timeline, telemetry=telemetry)
    diagnosis = diagnose_job([timeline], run=run)
    if not recording.steps_seen:
        diagnosis = word_by_second(diagnosis)
    return _with_notes(diagnosis, _notes_on(recording, seconds))


def _notes_on(recording: OutsideRecording, seconds: float) -> list[str]:
    look = (
        f"a look from outside for {seconds:.0f} s, {RATE_HZ} times a second, without stopping the "
        "process: what the job did before is not known"
    )
    steps = (
        "steps are those that the samples show"
        if recording.steps_seen
        else "steps are too short to be seen from outside: times are per second, not per step"
    )
    blind = (
        "not visible from outside: kernels, operators, settings of the framework, and the cost of "
        "each batch in the loader's workers; watch the next job with whyidle run to see them"
    )
    count, shares = len(recording.workers), recording.workers
    working = f"{count} loader workers made batches {sum(shares) / max(count, 1):.0%} of the time"
    return [look, steps, *([working] if count else []), blind]


def _with_notes(diagnosis: Diagnosis, notes: list[str]) -> Diagnosis:
    coverage = diagnosis.coverage
    coverage = msgspec.structs.replace(coverage, notes=[*notes, *coverage.notes])
    return msgspec.structs.replace(diagnosis, coverage=coverage)


def _diagnose_no_training(
    target: TargetProcess, look: StackLook, telemetry: Telemetry | None, run: RunInfo
) -> Diagnosis:
    spent: dict[str, int] = {}
    for thread in look.threads:
        if thread.pid == target.pid and thread.tid == target.pid:
            for period in thread.periods:
                leaf = period.frames[0] if period.frames else "no Python"
                spent[leaf] = spent.get(leaf, 0) + period.end - period.begin
    place = max(spent, key=lambda leaf: spent[leaf], default="")
    share = spent[place] / max(sum(spent.values()), 1) if place else 0.0
    loaded = (
        f"has loaded {', '.join(sorted(target.libraries))}, but"
        if target.libraries
        else ("has loaded neither PyTorch nor TensorFlow nor JAX, and")
    )
    reason = f"process {target.pid} {loaded} trained nothing during the look" + (
        f"; its main thread was {share:.0%} of the time at {place}" if place else ""
    )
    timeline = replace(
        blank_timeline(Path(f"process {target.pid}")),
        stepless=Stepless(reason),
        telemetry=telemetry,
    )
    return diagnose_job([timeline], run=run)
