"""Looks at a process that runs already, and diagnoses what was seen."""

from __future__ import annotations

import re
import socket
import tempfile
from collections import Counter
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

import msgspec

from whyidle.analysis.source_lines import own_frame
from whyidle.engine.attachment.gpu_limits import limit_by_gpu, mean_busy
from whyidle.engine.attachment.outside_recording import OutsideRecording, make_recording
from whyidle.engine.attachment.stack_look import RATE_HZ, StackLook, find_pyspy, look_at_stacks
from whyidle.engine.attachment.target_process import TargetProcess, has_ended
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

_LINE: Final = re.compile(r"\(\d+\)(?=: )")


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
        duration_s=look.length_s,
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
    if target.holds_gpu:
        diagnosis = limit_by_gpu(diagnosis, mean_busy(telemetry, target.pids))
    return _with_notes(diagnosis, [*_notes_on_look(target, look), *_notes_on(recording)])


def _notes_on_look(target: TargetProcess, look: StackLook) -> list[str]:
    note = (
        f"a look from outside for {look.length_s:.1f} s, {RATE_HZ} times a second, without "
        "stopping the process: what the job did before is not known"
    )
    ended = f"process {target.pid} ended during the look"
    return [note, ended] if has_ended(target.pid) else [note]


def _notes_on(recording: OutsideRecording) -> list[str]:
    steps = (
        "steps are those that the samples show"
        if recording.steps_seen
        else "steps are too short to be seen from outside: times are per second, not per step"
    )
    blind = (
        "not visible from outside: kernels, operators (Python outside of the framework counts as "
        "the operators that it calls), settings of the framework, and the cost of each batch in "
        "the loader's workers; watch the next job with whyidle run to see them"
    )
    count, shares = len(recording.workers), recording.workers
    working = f"{count} loader workers made batches {sum(shares) / max(count, 1):.0%} of the time"
    pid = recording.thread.pid
    several = f"{recording.processes} processes train; this is process {pid}"
    parts = [(steps, True), (working, count), (several, recording.processes > 1), (blind, True)]
    return [text for text, applies in parts if applies]


def _with_notes(diagnosis: Diagnosis, notes: list[str]) -> Diagnosis:
    coverage = diagnosis.coverage
    coverage = msgspec.structs.replace(coverage, notes=[*notes, *coverage.notes])
    return msgspec.structs.replace(diagnosis, coverage=coverage)


def _diagnose_no_training(
    target: TargetProcess, look: StackLook, telemetry: Telemetry | None, run: RunInfo
) -> Diagnosis:
    spent: Counter[str] = Counter()
    for thread in look.threads:
        if thread.pid == target.pid == thread.tid:
            for period in thread.periods:
                frame = own_frame(";".join(period.frames)) or period.frames[0]
                spent[_LINE.sub("", frame)] += period.end - period.begin
    loaded = (
        f"has loaded {', '.join(sorted(target.libraries))}, but"
        if target.libraries
        else "has loaded neither PyTorch nor TensorFlow nor JAX, and"
    )
    reason = f"process {target.pid} {loaded} trained nothing during the look"
    for place, time in spent.most_common(1):
        reason += f"; its main thread was {time / spent.total():.0%} of the time in {place}"
    timeline = replace(
        blank_timeline(Path(f"process {target.pid}")),
        stepless=Stepless(reason),
        telemetry=telemetry,
    )
    return _with_notes(diagnose_job([timeline], run=run), _notes_on_look(target, look))
