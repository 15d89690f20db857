"""Looks at a process that runs already, and diagnoses what was seen."""

from __future__ import annotations

import re
import socket
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

import msgspec

from whyidle.analysis.lines.source_lines import own_frame
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.machine.attachment import outside_recording
from whyidle.machine.attachment.gpu_limits import limit_by_gpu, mean_busy
from whyidle.machine.attachment.outside_recording import OutsideRecording, make_recordings
from whyidle.machine.attachment.stack_look import RATE_HZ, StackLook, find_pyspy, look_at_stacks
from whyidle.machine.attachment.standstill import find_standstill
from whyidle.machine.attachment.target_process import TargetProcess, has_ended
from whyidle.machine.attachment.thread_clocks import ThreadClocks
from whyidle.model.diagnosis import Diagnosis, Finding, RunInfo
from whyidle.model.live.telemetry import Target, Telemetry
from whyidle.model.process_facts import Stepless
from whyidle.readers.probe import blank_timeline
from whyidle.record.monitor import Monitor
from whyidle.record.recording_diagnosis import TELEMETRY, read_telemetry
from whyidle.version import __version__

STANDS_OUT: Final = 0.1
"""share of the time by which the others must wait longer than one: ten points are four
standard errors of the share of 400 samples (eight seconds), at the worst"""
_LINE: Final = re.compile(r"\(\d+\)(?=: )")
_WORDS: Final = (
    (re.compile(r"\bper step\b"), "per second"),
    (re.compile(r"\b(share|% ) of (the )?step\b"), r"\1 of the time"),
    (re.compile(r"\bof the step\b"), "of the time"),
    (re.compile(r"\b(in|for) every step\b"), r"\1 every second"),
)


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
            look = look_at_stacks(target.pid, seconds, apart=target.has_only_parts)
            if target.has_only_parts and outside_recording.trains_elsewhere(target.pid, look):
                look = look_at_stacks(target.pid, seconds)  # its children are ranks
        telemetry = read_telemetry(Path(folder))
    standstill = find_standstill(target, look, clocks, telemetry)
    recordings = [] if standstill else make_recordings(target, look, clocks)
    run = RunInfo(
        id=f"attach-{target.pid}",
        command=target.command,
        folder=target.folder,
        started=started,
        duration_s=look.length_s,
        exit_status=None,
        framework=recordings[0].timeline.framework if recordings else None,
        ranks=max(1, len(recordings)),
        hosts=[socket.gethostname()],
        whyidle=__version__,
        sources=[f"process {one.thread.pid}" for one in recordings] or [f"process {target.pid}"],
    )
    if standstill is not None:
        notes = [*_notes_on_look(target, look), *standstill.notes]
        diagnosis = _diagnose_no_training(standstill.reason, telemetry, run)
        return msgspec.structs.replace(_with_notes(diagnosis, notes), findings=[])
    if not recordings:
        diagnosis = _diagnose_no_training(_say_no_training(target, look), telemetry, run)
        return _with_notes(diagnosis, _notes_on_look(target, look))
    timelines = [replace(one.timeline, telemetry=telemetry) for one in recordings]
    diagnosis = diagnose_job(timelines, run=run)
    if not recordings[0].steps_seen:
        diagnosis = word_by_second(diagnosis)
    if target.holds_gpu:
        diagnosis = limit_by_gpu(diagnosis, mean_busy(telemetry, target.pids))
    return _with_notes(diagnosis, [*_notes_on_look(target, look), *_notes_on(recordings)])


def _notes_on_look(target: TargetProcess, look: StackLook) -> list[str]:
    note = (
        f"observed from outside for {look.length_s:.1f} s, {RATE_HZ} times a second, without "
        "stopping the process: what the job did before is not known"
    )
    ended = f"process {target.pid} ended during the observation"
    return [note, ended] if has_ended(target.pid) else [note]


def _notes_on(recordings: Sequence[OutsideRecording]) -> list[str]:
    steps = (
        "steps are those that the samples show"
        if recordings[0].steps_seen
        else "steps are too short to be seen from outside: times are per second, not per step"
    )
    lock = (
        ""
        if all(one.lock_seen for one in recordings)
        else " (Python outside of the framework counts as the operators that it calls)"
    )
    blind = (
        f"not visible from outside: kernels, operators{lock}, settings of the framework, and the "
        "cost of each batch in the loader's workers; watch the next job with whyidle run to see "
        "them"
    )
    shares = [share for one in recordings for share in one.workers]
    count = len(shares)
    working = f"{count} loader workers made batches {sum(shares) / max(count, 1):.0%} of the time"
    notes = [name_slowest(recordings)] if len(recordings) > 1 else []
    return [*notes, steps, *([working] if count else []), blind]


def name_slowest(recordings: Sequence[OutsideRecording]) -> str:
    """Which of several processes the others wait for: it sleeps least in the framework."""
    names = [f"rank {one.timeline.rank} (process {one.thread.pid})" for one in recordings]
    text = f"{len(recordings)} processes train, all of them are diagnosed"
    order = sorted(range(len(names)), key=lambda n: recordings[n].waiting)
    first, rest = recordings[order[0]].waiting, [recordings[n].waiting for n in order[1:]]
    mean = sum(rest) / len(rest)
    if mean - first < STANDS_OUT:
        return f"{text}; none of them appears to hold up the others"
    return (
        f"{text}; {names[order[0]]} is the slowest: it sleeps {first:.0%} of the time in the "
        f"framework, the others {mean:.0%}, as they wait for it"
    )


def _with_notes(diagnosis: Diagnosis, notes: list[str]) -> Diagnosis:
    coverage = diagnosis.coverage
    coverage = msgspec.structs.replace(coverage, notes=[*notes, *coverage.notes])
    return msgspec.structs.replace(diagnosis, coverage=coverage)


def _say_no_training(target: TargetProcess, look: StackLook) -> str:
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
    reason = f"process {target.pid} {loaded} did not train during the observation"
    for place, time in spent.most_common(1):
        reason += f"; its main thread was {time / spent.total():.0%} of the time in {place}"
    return reason


def _diagnose_no_training(reason: str, telemetry: Telemetry | None, run: RunInfo) -> Diagnosis:
    blank = blank_timeline(Path(run.sources[0]))
    timeline = replace(blank, stepless=Stepless(reason), telemetry=telemetry)
    return diagnose_job([timeline], run=run)


def word_by_second(diagnosis: Diagnosis) -> Diagnosis:
    """Return the diagnosis without steps, and with times per second."""
    unknown = ("mean_s", "p50_s", "p95_s", "p99_s", "samples_per_s", "detected_by", "confidence")
    none: dict[str, Any] = dict.fromkeys(unknown)
    steps = msgspec.structs.replace(diagnosis.steps, count=0, warmup=0, **none)
    verdict = diagnosis.verdict
    return msgspec.structs.replace(
        diagnosis,
        steps=steps,
        verdict=msgspec.structs.replace(verdict, headline=_word(verdict.headline)),
        findings=[_word_finding(finding) for finding in diagnosis.findings],
        detail=msgspec.structs.replace(diagnosis.detail, step_times_s=[], steady=[]),
    )


def _word_finding(finding: Finding) -> Finding:
    evidence = [
        msgspec.structs.replace(one, quantity=_word(one.quantity)) for one in finding.evidence
    ]
    headline = _word(finding.headline)
    return msgspec.structs.replace(finding, headline=headline, evidence=evidence)


def _word(text: str) -> str:
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return text
