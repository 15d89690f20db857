"""Compares two diagnoses: changes ranked by their effect on the step, and their significance."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import NamedTuple

from whyidle.analysis.sample_statistics import ratio_of_means
from whyidle.errors import GateError, InputError
from whyidle.model.buckets import BUCKETS, REASONS, Bucket
from whyidle.model.diagnosis import Diagnosis, KernelRow, RunInfo
from whyidle.model.documents.comparison import Change, Comparison, Side, StepChange

SMALL = 0.002  # least change in a list, as a share of the earlier step
_SAME = ", and assumes the same number of samples per step"
_FULL = 60  # length from which a kernel table counts as truncated


class _CostChange(NamedTuple):
    seconds: float
    meaning: str
    bucket: Bucket | None


def compare_diagnoses(before: Diagnosis, after: Diagnosis) -> Comparison:
    """Compare two runs. Without step boundaries on a side, changes are shares of the recording
    instead of seconds per step; a note says so."""
    timed = before.steps.mean_s is not None and after.steps.mean_s is not None
    scales = (
        before.steps.mean_s if timed and before.steps.mean_s else 1.0,
        after.steps.mean_s if timed and after.steps.mean_s else 1.0,
    )
    least = SMALL * scales[0]
    return Comparison(
        before=_summarize_side(before),
        after=_summarize_side(after),
        step=_compare_steps(before, after),
        buckets=_list_changes(
            _bucket_costs(before, scales[0]), _bucket_costs(after, scales[1]), 0.0
        ),
        reasons=_list_changes(
            _reason_costs(before, scales[0]), _reason_costs(after, scales[1]), least
        ),
        kernels=_compare_kernels(before, after, scales, least),
        gone=_set_difference(_cause_ids(before), _cause_ids(after)),
        appeared=_set_difference(_cause_ids(after), _cause_ids(before)),
        notes=_comparison_notes(before, after, timed),
    )


def check_regression(comparison: Comparison, max_regression_percent: float) -> None:
    """Check that a step, or a sample if steps have other numbers of samples, did not become
    significantly slower than allowed.

    Raises:
        GateError: the step became slower than allowed.
        InputError: there are too few steps.
    """
    step = comparison.step
    if step is None:
        raise InputError(
            "The regression gate cannot be evaluated.",
            why="One side has fewer than two steady steps.",
            hint="Record more steps; in a profiler trace, call prof.step() once per step.",
        )
    samples = comparison.times_the_samples
    low, slower, high = ((r / samples - 1) * 100 for r in (step.low, step.ratio, step.high))
    if low > 0.0 and slower > max_regression_percent:
        what = "the step" if samples == 1.0 else "a sample"
        raise GateError(
            f"--max-regression {max_regression_percent:g}: {what} became {slower:.1f}% slower.",
            why=f"95% interval {low:+.1f} to {high:+.1f}%.",
        )


def list_subjects(run: RunInfo) -> list[str]:
    """What was run or recorded: the job, else the command, else the recordings."""
    if run.job or run.command:
        return [run.job or shlex.join(run.command or [])]
    return run.sources


def _summarize_side(diagnosis: Diagnosis) -> Side:
    return Side(
        run=diagnosis.run.id,
        sources=list_subjects(diagnosis.run),
        state=diagnosis.verdict.state,
        headline=diagnosis.verdict.headline,
        step_s=diagnosis.steps.mean_s,
        steps=diagnosis.steps.count,
        samples_per_s=diagnosis.steps.samples_per_s,
    )


def _compare_steps(before: Diagnosis, after: Diagnosis) -> StepChange | None:
    ratio = ratio_of_means(steady_lengths(before), steady_lengths(after))
    if ratio is None:
        return None
    return StepChange(
        ratio=ratio.value,
        low=ratio.low,
        high=ratio.high,
        real=not ratio.low <= 1.0 <= ratio.high,
        method="bootstrap of mean step times within each recording, 95%",
    )


def steady_lengths(diagnosis: Diagnosis) -> list[float]:
    """The seconds of each steady step; empty without step boundaries."""
    if diagnosis.steps.detected_by is None:
        return []
    times, steady = diagnosis.detail.step_times_s, diagnosis.detail.steady
    return [s for s, counts in zip(times, steady, strict=True) if counts] if steady else times


def _bucket_costs(diagnosis: Diagnosis, scale: float) -> dict[str, _CostChange]:
    shares = diagnosis.attribution
    return {
        b: _CostChange(getattr(shares, b) * scale, "", b) for b in BUCKETS if getattr(shares, b)
    }


def _reason_costs(diagnosis: Diagnosis, scale: float) -> dict[str, _CostChange]:
    return {
        row.reason: _CostChange(row.share * scale, row.meaning, row.bucket)
        for row in diagnosis.detail.reasons
        if row.reason != "compute" and row.reason in REASONS
    }


def _list_changes(
    before: Mapping[str, _CostChange], after: Mapping[str, _CostChange], least: float
) -> list[Change]:
    changes = []
    for name in {**before, **after}:
        known = after.get(name) or before[name]
        was = before[name].seconds if name in before else 0.0
        now = after[name].seconds if name in after else 0.0
        if abs(now - was) >= least:
            changes.append(
                Change(
                    name=name,
                    meaning=known.meaning,
                    bucket=known.bucket,
                    before_s=was,
                    after_s=now,
                    delta_s=now - was,
                )
            )
    return _rank_changes(changes)


def _compare_kernels(
    before: Diagnosis, after: Diagnosis, scales: tuple[float, float], least: float
) -> list[Change]:
    """Compare kernels by name. A kernel missing from a truncated table may have run as long as the
    table's last kernel, so only the certain part of its change counts."""
    if explain_missing_kernels(before, after):
        return []
    rows = [{row.name: row for row in side.detail.kernels} for side in (before, after)]
    floors = [_shortest_listed(side.detail.kernels) for side in (before, after)]
    changes = []
    for name in {**rows[0], **rows[1]}:
        row = rows[1].get(name) or rows[0][name]
        shares = [side[name].share if name in side else None for side in rows]
        times = [None if s is None else s * t for s, t in zip(shares, scales, strict=True)]
        least_times = [
            floor * scale if value is None else value
            for value, floor, scale in zip(times, floors, scales, strict=True)
        ]
        delta = least_times[1] - least_times[0]
        if abs(delta) >= least:
            changes.append(
                Change(
                    name=name,
                    meaning=row.group,
                    bucket=None,
                    before_s=_known_duration(times[0], floors[0]),
                    after_s=_known_duration(times[1], floors[1]),
                    delta_s=delta,
                )
            )
    return _rank_changes(changes)


def explain_missing_kernels(before: Diagnosis, after: Diagnosis) -> str:
    """Explain why kernels or operators cannot be compared; empty if they can."""
    empty = [name for name, side in (("A", before), ("B", after)) if not side.detail.kernels]
    if len(empty) == 1:
        return f"kernels and operators of {empty[0]} were not recorded, so they are not compared"
    if (before.device.kind == "cpu") != (after.device.kind == "cpu"):
        return "one side has CPU operators, the other GPU kernels, so they are not compared"
    return ""


def _shortest_listed(rows: list[KernelRow]) -> float:
    return min(row.share for row in rows) if len(rows) >= _FULL else 0.0


def _known_duration(value: float | None, floor: float) -> float | None:
    return value if value is not None or floor > 0.0 else 0.0


def _rank_changes(changes: list[Change]) -> list[Change]:
    return sorted(changes, key=lambda change: (-abs(change.delta_s), change.name))


def _cause_ids(diagnosis: Diagnosis) -> list[str]:
    return [finding.cause for finding in diagnosis.findings if finding.severity != "info"]


def _set_difference(these: list[str], those: list[str]) -> list[str]:
    return [cause for cause in these if cause not in those]


def _comparison_notes(before: Diagnosis, after: Diagnosis, timed: bool) -> list[str]:
    notes = []
    if not timed:
        notes.append("one side has no step boundaries: times are shares of each recording")
    if unrecorded := explain_missing_kernels(before, after):
        notes.append(unrecorded)
    names = (before.device.name, after.device.name)
    if None not in names and names[0] != names[1]:
        notes.append(f"the devices differ: {names[0]} and {names[1]}")
    commands = (before.run.command, after.run.command)
    if None not in commands and commands[0] != commands[1]:
        notes.append("the commands differ, so the work of a step may differ")
    if before.run.ranks != after.run.ranks:
        notes.append(f"the number of ranks differs: {before.run.ranks} and {after.run.ranks}")
    if timed and before.steps.detected_by != after.steps.detected_by:
        notes.append(
            "steps were detected in different ways and may not correspond: "
            f"{before.steps.detected_by} and {after.steps.detected_by}"
        )
    if (before.run.id, before.run.sources) == (after.run.id, after.run.sources):
        notes.append("both sides are the same recording")
    few = min(len(steady_lengths(before)), len(steady_lengths(after)))
    if 2 <= few < 5:
        notes.append(f"one side has only {few} steps: the interval is wide")
    notes.append(
        "the interval covers the variation of steps within each recording, not between runs"
        + (_SAME if None in (before.steps.samples_per_s, after.steps.samples_per_s) else "")
    )
    return notes
