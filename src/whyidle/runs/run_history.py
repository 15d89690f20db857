"""One command over its stored runs: when did it become slower, or faster?

A run is compared with the earlier ones of the same device, number of ranks and framework since the
last change. It is beyond them if its step time leaves the prediction interval of one more run of
the same kind, by the spread of their logarithms, and differs by ``LEAST`` or more. One run beyond
may have shared the machine with another program, so a change is confirmed by the next run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

import msgspec

from whyidle.fix.statistics.alpha_spending import CHANCE, student_quantile
from whyidle.model.buckets import BUCKETS
from whyidle.model.diagnosis import Diagnosis, Interval
from whyidle.model.documents.run_history import HistoryRow, Kind, RunHistory, SpeedChange
from whyidle.version import __version__

FEWEST: Final = 3
"""earlier runs without which their spread is not known: with two, the interval is 64 standard
deviations wide"""
LEAST: Final = 0.05
"""smaller differences are no reason to act, however equal the earlier runs were"""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A stored diagnosis, and when its run was stored (ISO 8601)."""

    run: str
    created: str
    diagnosis: Diagnosis


def matches_command(command: Sequence[str], words: Sequence[str]) -> bool:
    """Whether a command contains the words, one after the other. A word also matches a path that
    ends with it: ``train.py`` is ``/home/me/train.py``."""
    for at in range(len(command) - len(words) + 1):
        pairs = zip(command[at : at + len(words)], words, strict=True)
        if all(own == word or PurePath(own).name == word for own, word in pairs):
            return True
    return False


def build_history(runs: Sequence[StoredRun], words: Sequence[str]) -> RunHistory:
    """Build the history of runs, the oldest first."""
    rows = [_describe_run(run) for run in runs]
    changes: list[SpeedChange] = []
    for kind in dict.fromkeys(map(_sort_of, rows)):
        numbers = [n for n, row in enumerate(rows) if _sort_of(row) == kind and row.step_s]
        changes += _find_changes(rows, numbers)
    order = {row.run: number for number, row in enumerate(rows)}
    return RunHistory(
        whyidle=__version__,
        words=list(words),
        rows=rows,
        changes=sorted(changes, key=lambda change: order[change.run]),
        notes=_notes_on(rows),
    )


def _describe_run(stored: StoredRun) -> HistoryRow:
    diagnosis, steps = stored.diagnosis, stored.diagnosis.steps
    return HistoryRow(
        run=stored.run,
        created=stored.created,
        command=diagnosis.run.command or [],
        device=diagnosis.device,
        ranks=diagnosis.run.ranks,
        framework=diagnosis.run.framework,
        state=diagnosis.verdict.state,
        headline=diagnosis.verdict.headline,
        cause=next((f.cause for f in diagnosis.findings if f.severity != "info"), None),
        step_s=steps.mean_s,
        p50_s=steps.p50_s,
        p95_s=steps.p95_s,
        steps=steps.count,
        attribution=diagnosis.attribution,
        busy=diagnosis.utilization.busy,
        gpu_util=diagnosis.utilization.gpu_util,
    )


def _sort_of(row: HistoryRow) -> tuple[object, ...]:
    """What runs must share to be compared."""
    return row.device.kind, row.device.name, row.device.count, row.ranks, row.framework


def _find_changes(rows: list[HistoryRow], numbers: Sequence[int]) -> list[SpeedChange]:
    """The changes among runs that can be compared; marks each run in ``rows``."""
    changes: list[SpeedChange] = []
    alike: list[int] = []
    for turn, number in enumerate(numbers):
        expected = _expect([rows[n].step_s or 0.0 for n in alike])
        kind = _judge(rows[number], expected)
        rows[number] = msgspec.structs.replace(rows[number], expected=expected, kind=kind)
        if kind is None or expected is None:
            alike.append(number)
            continue
        following = numbers[turn + 1 : turn + 2]
        confirmed = any(_judge(rows[n], expected) == kind for n in following)
        if confirmed or not following:
            changes.append(_describe_change(rows, alike, number, confirmed=confirmed))
        if confirmed:
            alike = [number]
    return changes


def _expect(seconds: Sequence[float]) -> Interval | None:
    """What runs alike let one expect of another one, s; None of too few."""
    if len(seconds) < FEWEST:
        return None
    logs = [math.log(value) for value in seconds]
    mean = sum(logs) / len(logs)
    spread = math.sqrt(sum((one - mean) ** 2 for one in logs) / (len(logs) - 1))
    half = student_quantile(CHANCE, len(logs) - 1) * spread * math.sqrt(1 + 1 / len(logs))
    half = max(half, math.log1p(LEAST))
    return Interval(low=math.exp(mean - half), high=math.exp(mean + half))


def _judge(row: HistoryRow, expected: Interval | None) -> Kind | None:
    if expected is None or row.step_s is None:
        return None
    if row.step_s > expected.high:
        return "slower"
    return "faster" if row.step_s < expected.low else None


def _describe_change(
    rows: Sequence[HistoryRow], alike: Sequence[int], number: int, *, confirmed: bool
) -> SpeedChange:
    row, before = rows[number], [rows[n] for n in alike]
    now, was = row.step_s or 0.0, sum(one.step_s or 0.0 for one in before) / len(before)
    parts = {
        bucket: getattr(row.attribution, bucket) * now
        - sum(getattr(one.attribution, bucket) * (one.step_s or 0.0) for one in before)
        / len(before)
        for bucket in BUCKETS
    }
    kind: Kind = "slower" if now > was else "faster"
    sign = 1 if kind == "slower" else -1
    most = max(parts, key=lambda bucket: sign * parts[bucket])
    return SpeedChange(
        run=row.run,
        kind=kind,
        before_s=was,
        after_s=now,
        expected=row.expected or Interval(low=was, high=was),
        earlier=len(before),
        confirmed=confirmed,
        moved=(most, parts[most]) if sign * parts[most] > 0 else None,
        cause=row.cause if row.cause not in {one.cause for one in before} else None,
    )


def _notes_on(rows: Sequence[HistoryRow]) -> list[str]:
    notes = []
    sorts = {_sort_of(row) for row in rows}
    if len(sorts) > 1:
        text = "other devices, numbers of ranks or frameworks"
        notes.append(f"runs on {text} are not compared with each other: {len(sorts)} kinds of runs")
    commands = {tuple(row.command) for row in rows}
    if len(commands) > 1:
        notes.append(
            f"the runs are of {len(commands)} commands that contain these words: name more words "
            "to tell them apart"
        )
    timed = [row for row in rows if row.step_s is not None]
    if len(timed) < len(rows):
        notes.append(f"{len(rows) - len(timed)} runs have no step time")
    if len(timed) <= FEWEST:
        notes.append(f"a change needs {FEWEST} earlier runs of the same kind, to know their spread")
    return notes
