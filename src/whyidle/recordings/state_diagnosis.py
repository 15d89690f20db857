"""Diagnoses of recordings without events in time: memory snapshots, dumps of NCCL's flight
recorder, NCCL's log, and logs of nvidia-smi. Shares of time are unknown, so nothing is
predicted."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from whyidle import catalog
from whyidle.analysis.device.utilization_patterns import draw_curve, explain_pattern, find_pattern
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.ranks.stuck_collectives import Stuck, find_stuck
from whyidle.errors import InputError
from whyidle.model.buckets import BUCKETS
from whyidle.model.diagnosis import (
    Attribution,
    Coverage,
    DetailTables,
    Device,
    Diagnosis,
    Evidence,
    Finding,
    Interval,
    Place,
    ProposedFix,
    RunInfo,
    Severity,
    Steps,
    Utilization,
    Verdict,
)
from whyidle.model.number_text import MOST_NAMED, format_digits, format_duration
from whyidle.model.state_records import (
    DeviceMemory,
    FlightRecord,
    GpuLog,
    GpuSeries,
    MemorySnapshot,
    TransportLog,
)
from whyidle.readers._state.nccl_log import describe_transports, find_slow_transports
from whyidle.readers._state.state_files import find_state_files, read_state
from whyidle.version import __version__

FRAGMENTED = 0.2
"""a larger share of reserved memory that lies between tensors is worth a finding: with less, a
cache that is merely warm looks the same"""
_FULL, _ROOMY = 0.95, 0.5
"""shares of a GPU's memory: no room for a larger batch, and room for twice as much"""
_KINDS = {
    "unused": "nothing ran on it",
    "high": "nearly always busy",
    "level": "in part of every sample",
    "periodic": "at regular intervals",
    "bursts": "between bursts",
    "uneven": "unevenly",
}
_GROWING = (
    "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True before the command, so that segments "
    "grow in place; group batches by length, so that sizes repeat"
)
_LOOK_THERE = (
    "check what the late rank does after its last known place: a branch that others do "
    "not take, an exception, a longer input, or a stopped process"
)


def diagnose_states(paths: Sequence[Path]) -> Diagnosis | None:
    """Diagnose files that record a state; None if there is none among the paths.

    Raises:
        InputError: they cannot be read.
    """
    read: list[MemorySnapshot | FlightRecord | TransportLog | GpuLog] = []
    errors: list[InputError] = []
    for path in find_state_files(paths):
        try:
            state = read_state(path)
        except InputError as error:
            errors.append(error)
            continue
        read += [state] if state is not None else []
    if not read and errors:
        raise errors[0]
    if not read:
        return None
    notes = [f"not read: {error.what} {error.why}".strip() for error in errors]
    records = [state for state in read if isinstance(state, FlightRecord)]
    if records:
        return _diagnose_records(records, notes)
    if logs := [state for state in read if isinstance(state, TransportLog)]:
        return _diagnose_transports(logs, notes)
    if samples := [state for state in read if isinstance(state, GpuLog)]:
        return _diagnose_samples(samples, notes)
    return _diagnose_snapshots([one for one in read if isinstance(one, MemorySnapshot)], notes)


def _diagnose_transports(logs: list[TransportLog], notes: list[str]) -> Diagnosis:
    """Several logs are of the processes of one job: each slow path is reported once."""
    findings = [
        _make_finding(
            _Claim("nccl-transport-fallback", "warning", what),
            [], [], _propose("repair-transport", advice),
        )
        for what, advice in dict.fromkeys(one for log in logs for one in find_slow_transports(log))
    ]  # fmt: skip
    notes += dict.fromkeys(map(describe_transports, logs))
    verdict = _decide(notes[-1], findings)
    ranks = max(log.ranks for log in logs)
    return _make_document([log.path for log in logs], verdict, findings, notes, ranks=ranks)


def _diagnose_samples(logs: list[GpuLog], notes: list[str]) -> Diagnosis:
    """Logs of utilization: how much of the time a GPU idled, in which pattern. Why is not there."""
    told = [(log, gpu, find_pattern(gpu.busy)) for log in logs for gpu in log.gpus]
    for log, gpu, pattern in told:
        every = f"{pattern.period} samples"
        if pattern.period and log.period_s:
            every = format_duration(pattern.period * log.period_s)
        notes += [
            f"GPU {gpu.gpu}, busy 0 to 100 %: [{draw_curve(gpu.busy)}]",
            f"GPU {gpu.gpu} {_describe_rates(gpu)}. {explain_pattern(pattern, every)}",
            *_describe_filling(gpu),
        ]
    _, gpu, pattern = max(told, key=lambda row: (row[2].kind != "unused", row[2].idle))
    rest = [g.gpu for _, g, one in told if one.kind == "unused" and pattern.kind != "unused"]
    headline = (
        f"No kernel ran on GPU {gpu.gpu} {pattern.idle:.0%} of the time ({_KINDS[pattern.kind]})"
        f"{'; nothing ran on GPU ' * bool(rest)}{', '.join(rest)}; samples do not show why: "
        "whyidle run COMMAND does"
    )
    lengths = [len(gpu.busy) * log.period_s for log, gpu, _ in told if log.period_s]
    return _make_document(
        [log.path for log in logs],
        Verdict(state="inconclusive", headline=headline, bound=None),
        [],
        notes,
        ranks=len(told),
        duration_s=max(lengths, default=0.0),
        busy=float(np.mean([gpu.busy.mean() for _, gpu, _ in told])) / 100,
    )


def _describe_rates(gpu: GpuSeries) -> str:
    text = f"ran kernels {gpu.busy.mean():.0f}% of the time"
    if np.isnan(gpu.controller).all():
        return text
    return f"{text}, its memory's controller worked {np.nanmean(gpu.controller):.0f}%"


def _describe_filling(gpu: GpuSeries) -> list[str]:
    filled = gpu.used / np.where(gpu.total > 0, gpu.total, np.nan)
    if np.isnan(filled).all():
        return []
    most = float(np.nanmax(filled))
    text = f"GPU {gpu.gpu}: at most {most:.0%} of its memory was in use"
    if most > _FULL:
        return [f"{text}; there is no room for a larger batch"]
    return [f"{text}; a larger batch may fit" if most < _ROOMY else text]


def _diagnose_snapshots(snapshots: list[MemorySnapshot], notes: list[str]) -> Diagnosis:
    findings = []
    devices = [(one.path, device) for one in snapshots for device in one.devices]
    for _, device in devices:
        notes.append(_describe_peak(device))
        if finding := _find_fragmentation(device):
            findings.append(finding)
    fullest = max((device for _, device in devices), key=lambda device: device.peak, default=None)
    headline = "A memory snapshot shows what fills the memory, not why the device idles"
    out_of_memory = [device for _, device in devices if device.failed]
    if out_of_memory:
        headline = _describe_failure(out_of_memory[0])
    elif fullest is not None:
        headline = f"{headline}. {_describe_peak(fullest)}"
    verdict = _decide(headline, findings)
    if out_of_memory and findings:
        verdict = msgspec.structs.replace(verdict, headline=f"{headline}. {verdict.headline}")
    return _make_document(
        [one.path for one in snapshots],
        verdict,
        findings,
        notes,
        peak=fullest.peak if fullest is not None else None,
    )


def _describe_failure(device: DeviceMemory) -> str:
    last = device.failed[-1]
    free = "" if last.free is None else f"{_gigabytes(last.free)} was free, "
    text = (
        f"Out of memory on device {device.device}: {_gigabytes(last.size)} was asked for, {free}"
        f"{_gigabytes(device.reserved)} was reserved and {_gigabytes(device.allocated)} in use"
    )
    if not device.holders:
        return text
    most = device.holders[0]
    return (
        f"{text}, {most.size / max(device.peak, 1):.0%} of the peak {_describe_place(most.place)}"
    )


def _decide(reason: str, findings: list[Finding]) -> Verdict:
    """The first finding, if there is one; else why there is no verdict."""
    if not findings:
        return Verdict(state="inconclusive", headline=reason, bound=None)
    first = findings[0]
    return Verdict(
        state="inefficient", headline=first.headline, bound=first.bucket, cause=first.cause
    )


def _describe_peak(device: DeviceMemory) -> str:
    when = "At its peak" if device.has_history else "When it was taken,"
    text = f"{when} device {device.device} had {_gigabytes(device.peak)} in use"
    shares = [
        f"{held.size / max(device.peak, 1):.0%} {_describe_place(held.place)}"
        for held in device.holders[:MOST_NAMED]
    ]
    return f"{text}: {', '.join(shares)}" if shares else text


def _describe_place(place: Place | None) -> str:
    if place is None:
        return "from places that were not recorded"
    file = (place.file or "").rpartition("/")[2]
    return f"from {file}:{place.line} ({place.function})"


def _find_fragmentation(device: DeviceMemory) -> Finding | None:
    share = device.stranded / max(device.reserved, 1)
    # an allocation that failed although as much was free is the proof itself
    failed = [one.size for one in device.failed if 0 < one.size <= device.stranded]
    if share < FRAGMENTED and not failed:
        return None
    headline = (
        f"{share:.0%} of the memory reserved on device {device.device} "
        f"({_gigabytes(device.stranded)}) is free but lies between tensors in use"
    )
    if failed:
        headline += f"; an allocation of {_gigabytes(failed[0])} failed beside it"
    rows = (
        ("memory reserved", device.reserved, "bytes"),
        ("memory in use", device.allocated, "bytes"),
        ("largest free piece between tensors", device.largest_gap, "bytes"),
    )
    return _make_finding(
        _Claim("allocator-thrash", "critical" if failed else "warning", headline),
        [held.place for held in device.holders if held.place is not None],
        [make_evidence(*row, source="memory snapshot", window="snapshot") for row in rows],
        _propose("expandable-segments", _GROWING),
    )


def _diagnose_records(records: list[FlightRecord], notes: list[str]) -> Diagnosis:
    stuck = find_stuck(records)
    findings = [_describe_stuck(one) for one in stuck]
    if findings:
        verdict = Verdict(
            state="starved",
            headline=findings[0].headline,
            bound="communication",
            cause=findings[0].cause,
        )
    else:
        headline = (
            f"All {len(records)} ranks have reached the same collectives, and none is late; the "
            "flight recorder does not show what the device does between them"
        )
        verdict = Verdict(state="inconclusive", headline=headline, bound=None)
    return _make_document(
        [one.path for one in records], verdict, findings, notes, ranks=len(records)
    )


def _describe_stuck(stuck: Stuck) -> Finding:
    evidence: list[Evidence] = [
        make_evidence(
            "ranks that wait", stuck.waiting, None, source="flight recorder", window="end"
        ),
        make_evidence("number of the collective", stuck.number, None, source="flight recorder"),
    ]
    fixes = _propose("explain-late-rank", _LOOK_THERE)
    claim = _Claim("late-rank", "critical", stuck.sentence)
    return _make_finding(claim, list(stuck.places), evidence, fixes)


def _propose(fix: str, summary: str) -> list[ProposedFix]:
    unknown = {"edits": [], "consent": "none", "automatic": False, "predicted": None, "risk": ""}
    return [msgspec.convert({"fix": fix, "summary": summary, **unknown}, ProposedFix)]


class _Claim(NamedTuple):
    cause: str
    severity: Severity
    headline: str


def _make_finding(
    claim: _Claim, where: list[Place], evidence: list[Evidence], fixes: list[ProposedFix]
) -> Finding:
    declared = catalog.load_causes()[claim.cause]
    return Finding(
        cause=claim.cause,
        family=declared.family,
        bucket=declared.bucket,
        severity=claim.severity,
        headline=claim.headline,
        where=where[:MOST_NAMED],
        lost=Interval(low=0.0, high=0.0),
        confidence=0.9,
        evidence=evidence,
        fixes=fixes,
        title=declared.title,
    )


def _make_document(
    sources: list[str],
    verdict: Verdict,
    findings: list[Finding],
    notes: list[str],
    *,
    ranks: int = 1,
    peak: int | None = None,
    duration_s: float = 0.0,
    busy: float | None = None,
) -> Diagnosis:
    """The document; ``peak`` is the most memory in use on a device, bytes, ``busy`` the share of
    the time in which a kernel ran."""
    digest = hashlib.sha256("\n".join(sources).encode()).hexdigest()[:8]
    nothing = dict.fromkeys(BUCKETS, 0.0)
    return Diagnosis(
        run=RunInfo(
            id=f"explain-{digest}",
            command=None,
            started=None,
            duration_s=duration_s,
            exit_status=None,
            framework="pytorch",
            ranks=ranks,
            hosts=[],
            whyidle=__version__,
            sources=sources,
        ),
        device=Device(kind="cuda", name=None, count=ranks, memory_bytes=None, peak_flops=None),
        steps=Steps(
            count=0, warmup=0, mean_s=None, p50_s=None, p95_s=None, p99_s=None,
            samples_per_s=None, detected_by=None,
        ),
        attribution=Attribution(**{**nothing, "unknown": 1.0}),
        utilization=Utilization(
            busy=None, gpu_util=busy, sm_active=None, sm_occupancy=None, tensor_active=None,
            dram_active=None, mfu=None, power_w=None, memory_peak_bytes=peak,
            energy_j_per_step=None,
        ),
        verdict=verdict,
        findings=findings,
        abstentions=[],
        trials=[],
        coverage=Coverage(
            signals=[], windows=ranks, overhead_ratio=None, clock_error_s=None, notes=notes
        ),
        detail=DetailTables(reasons=[], kernels=[], groups={}, picture=None, ranks=[]),
    )  # fmt: skip


def _gigabytes(size: int) -> str:
    return f"{format_digits(size / 1e9)} GB"
