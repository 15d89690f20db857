"""A diagnosis for people who stand where the command was started: names of files from there."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from whyidle.model.diagnosis import Diagnosis, Evidence, Finding, Place, ProposedFix, Trial

Advice = TypeVar("Advice", ProposedFix, Trial)


def shorten_paths(diagnosis: Diagnosis) -> Diagnosis:
    """The same, files below the folder of its run named as they are from there; data that programs
    read keeps whole paths."""
    folder = (diagnosis.run.folder or "").rstrip("/")
    if not folder:
        return diagnosis
    start = f"{folder}/"
    found = [_shorten_finding(one, start) for one in diagnosis.findings]
    tried = [_shorten_advice(one, start) for one in diagnosis.trials]
    detail = diagnosis.detail
    if fixed := detail.fixed:
        left = [one.replace(start, "") for one in fixed.left]
        fixed = msgspec.structs.replace(fixed, left=left)
        detail = msgspec.structs.replace(detail, fixed=fixed)
    return msgspec.structs.replace(diagnosis, findings=found, trials=tried, detail=detail)


def _shorten_finding(finding: Finding, start: str) -> Finding:
    return msgspec.structs.replace(
        finding,
        where=[_shorten_place(one, start) for one in finding.where],
        evidence=[_shorten_evidence(one, start) for one in finding.evidence],
        fixes=[_shorten_advice(one, start) for one in finding.fixes],
    )


def _shorten_place(place: Place, start: str) -> Place:
    if place.file is None:
        return place
    return msgspec.structs.replace(place, file=place.file.removeprefix(start))


def _shorten_advice(fix: Advice, start: str) -> Advice:
    return msgspec.structs.replace(fix, summary=fix.summary.replace(start, ""))


def _shorten_evidence(evidence: Evidence, start: str) -> Evidence:
    if not isinstance(evidence.value, str):
        return evidence
    return msgspec.structs.replace(evidence, value=evidence.value.removeprefix(start))
