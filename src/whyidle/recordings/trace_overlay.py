"""Builds tracks of steps, idle gaps and findings for the recordings of a diagnosis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.facts import Facts
from whyidle.model.buckets import BUCKETS, REASONS
from whyidle.model.diagnosis import Diagnosis, Finding
from whyidle.model.overlay import Mark, Overlay, Track, Value
from whyidle.model.timeline import DeviceEvents, HostEvents, Timeline

I64 = NDArray[np.int64]


def make_overlays(timelines: Sequence[Timeline], diagnosis: Diagnosis) -> list[Overlay]:
    """Make one overlay per recording; marks are generated lazily."""
    recordings = [one for timeline in timelines for one in (timeline, *timeline.others)]
    return [_make_overlay(Facts(timeline), diagnosis) for timeline in recordings]


def _make_overlay(facts: Facts, diagnosis: Diagnosis) -> Overlay:
    timeline = facts.timeline
    findings = [finding for finding in diagnosis.findings if _is_about_rank(finding, facts.rank)]
    return Overlay(
        source=timeline.source.path,
        rank=facts.rank,
        tracks=(
            Track("whyidle steps", _step_marks(facts)),
            Track("whyidle gaps", _gap_marks(facts, findings)),
            Track("whyidle findings", _finding_marks(facts, findings)),
        ),
        recording=tuple(_recorded_tracks(timeline)),
    )


def _recorded_tracks(timeline: Timeline) -> Iterator[Track]:
    """The recording itself: a track per stream, and per thread."""
    host, device = timeline.host, timeline.device
    places = device.device.astype(np.int64) << 32 | (device.stream & 0xFFFF_FFFF)
    for place in np.unique(places).tolist():
        rows = np.flatnonzero(places == place)
        name = f"device {place >> 32}, stream {place & 0xFFFF_FFFF}"
        yield Track(name, _recorded_marks(timeline, device, rows))
    for thread in np.unique(host.thread).tolist():
        rows = np.flatnonzero(host.thread == thread)
        yield Track(timeline.threads[thread], _recorded_marks(timeline, host, rows))


def _recorded_marks(
    timeline: Timeline, events: HostEvents | DeviceEvents, rows: I64
) -> Iterator[Mark]:
    origin = timeline.source.origin_ns
    for row in rows.tolist():
        start, end = int(events.start[row]), int(events.end[row])
        yield Mark(origin + start, end - start, timeline.names[events.name[row]], {})


def _is_about_rank(finding: Finding, rank: int | None) -> bool:
    ranks = {place.rank for place in finding.where} - {None}
    return rank is None or not ranks or rank in ranks


def _step_marks(facts: Facts) -> Iterator[Mark]:
    origin, steps = facts.timeline.source.origin_ns, facts.steps
    shares = facts.partition.reason_shares(steps.start, steps.end)
    for i, label in enumerate(steps.labels):
        split = dict.fromkeys(BUCKETS, 0.0)
        for reason, share in shares.items():
            split[REASONS[reason][0]] += float(share[i])
        disturbed = steps.disturbed is not None and bool(steps.disturbed[i])
        other = "disturbed by measuring" if disturbed else "warm-up"
        args: dict[str, Value] = {"counted as": "steady" if steps.steady[i] else other}
        args |= {bucket: round(share, 4) for bucket, share in split.items()}
        start, end = int(steps.start[i]), int(steps.end[i])
        yield Mark(origin + start, end - start, label, args)


def _gap_marks(facts: Facts, findings: list[Finding]) -> Iterator[Mark]:
    origin = facts.timeline.source.origin_ns
    start, end, reason = lost_time(facts)
    causes = {
        bucket: ", ".join(finding.cause for finding in findings if finding.bucket == bucket)
        for bucket in BUCKETS
    }
    names = list(REASONS)
    for i in range(len(start)):
        bucket, meaning = REASONS[names[reason[i]]]
        args: dict[str, Value] = {"bucket": bucket, "reason": names[reason[i]], "meaning": meaning}
        if causes[bucket]:
            args["findings in this bucket"] = causes[bucket]
        yield Mark(origin + int(start[i]), int(end[i] - start[i]), f"{bucket}: {meaning}", args)


def lost_time(facts: Facts) -> tuple[I64, I64, I64]:
    """Time without useful compute: sorted (start ns, end ns, index into ``REASONS``)."""
    parts = [
        (part, index)
        for index, (name, part) in enumerate(facts.partition.parts.items())
        if name != "compute"
    ]
    start = np.concatenate([part.start for part, _ in parts])
    end = np.concatenate([part.end for part, _ in parts])
    reason = np.concatenate([np.full(len(part), index) for part, index in parts])
    order = np.argsort(start, kind="stable")
    return start[order], end[order], reason[order]


def _finding_marks(facts: Facts, findings: list[Finding]) -> Iterator[Mark]:
    if not len(facts.scope):
        return
    first, last = int(facts.scope.start[0]), int(facts.scope.end[-1])
    origin = facts.timeline.source.origin_ns
    for finding in findings:
        yield Mark(
            origin + first,
            last - first,
            finding.title or finding.cause,
            _finding_arguments(finding),
        )


def _finding_arguments(finding: Finding) -> dict[str, Value]:
    args: dict[str, Value] = {
        "cause": finding.cause,
        "severity": finding.severity,
        "headline": finding.headline,
        "bucket": finding.bucket,
        "lost, share of step": f"{finding.lost.low:.3f} to {finding.lost.high:.3f}",
        "confidence": finding.confidence,
    }
    for i, item in enumerate(finding.evidence, 1):
        args[f"evidence {i}"] = f"{item.quantity}: {item.value} {item.unit or ''}".strip()
    for i, place in enumerate(finding.where, 1):
        args[f"where {i}"] = f"{place.file}:{place.line} {place.function or ''}".strip()
    for i, fix in enumerate(finding.fixes, 1):
        args[f"fix {i}"] = fix.summary
    return args
