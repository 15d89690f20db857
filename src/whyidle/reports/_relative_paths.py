"""Shortens file names in a diagnosis to paths relative to the folder of the run."""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from whyidle.model.diagnosis import Diagnosis, Place, ProposedFix, Trial

Advice = TypeVar("Advice", ProposedFix, Trial)
Value = TypeVar("Value")


def shorten_paths(diagnosis: Diagnosis) -> Diagnosis:
    """Return the diagnosis with file names relative to the folder of its run."""
    folder = (diagnosis.run.folder or "").rstrip("/")
    if not folder:
        return diagnosis
    start = f"{folder}/"
    findings = [
        replace(
            finding,
            where=[shorten_place(place, folder) for place in finding.where],
            evidence=[
                replace(each, value=_strip_start(each.value, start)) for each in finding.evidence
            ],
            fixes=[_shorten_advice(fix, start) for fix in finding.fixes],
        )
        for finding in diagnosis.findings
    ]
    trials = [_shorten_advice(trial, start) for trial in diagnosis.trials]
    detail = diagnosis.detail
    if fixed := detail.fixed:
        sentences = [sentence.replace(start, "") for sentence in fixed.left]
        fixed = replace(fixed, left=sentences)
        detail = replace(detail, fixed=fixed)
    lines = [
        replace(row, place=shorten_place(row.place, folder)) if row.place else row
        for row in detail.lines
    ]
    pipelines = [
        replace(
            pipeline,
            stages=[replace(each, file=_strip_start(each.file, start)) for each in pipeline.stages],
        )
        for pipeline in detail.pipelines
    ]
    detail = replace(detail, lines=lines, pipelines=pipelines)
    return replace(diagnosis, findings=findings, trials=trials, detail=detail)


def shorten_place(place: Place, folder: str | None) -> Place:
    """Return the place with its file relative to the folder of the run."""
    return replace(place, file=_strip_start(place.file, f"{folder}/")) if folder else place


def _shorten_advice(fix: Advice, start: str) -> Advice:
    return replace(fix, summary=fix.summary.replace(start, ""))


def _strip_start(value: Value, start: str) -> Value | str:
    return value.removeprefix(start) if isinstance(value, str) else value
