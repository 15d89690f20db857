"""Reports that the processes of an arm write."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

FEWEST = 12  # least number of steps for a comparison


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """Report of one training process. Times are ns of the host's monotonic clock."""

    ended: str  # ``stopped``, ``finished`` (by itself) or ``crashed``
    begun: int
    marks: list[int]  # ends of the steps
    losses: list[float]  # loss of each backward pass
    known: Sequence[int] = ()
    """those of them that stand for themselves; empty: all. Others repeat the loss after several"""
    batches: Sequence[int] = ()  # hashes of the batches of steps without a loss, in order
    rank: int | None = None
    world: int = 1
    memory_bytes: int | None = None  # peak of its memory on the host
    moved: float | None = None  # how far sampled parameters moved in the first steps
    norm: float | None = None  # norm of all parameters after these steps
    drew: bool | None = None  # whether steps drew random numbers
    device: Sequence[Sequence[int]] = ()  # (steps done, bytes allocated on the device)
    device_free: int | None = None
    device_peak: int | None = None
    drained: Sequence[Sequence[int]] = ()
    """(steps done, time) at which the device's queue was empty; it was waited for at the first"""
    compiled: Sequence[Sequence[int]] = ()  # (steps done, ns) of each compilation
    unswayed: bool = False  # rounding noise was requested, but could not be added to the end
    files: Mapping[str, Sequence[str]] | None = None
    """loaded files of the job -> folders they were imported from; None: unknown"""


def read_reports(recording: Path) -> list[ProcessReport]:
    """Read the reports of all processes that trained; unreadable ones are skipped."""
    reports = []
    for path in sorted(recording.glob("*.trial.json")):
        with suppress(OSError, ValueError, TypeError, KeyError):
            document = json.loads(path.read_text(encoding="utf-8"))
            document["losses"] = [float.fromhex(loss) for loss in document["losses"]]
            for name in ("moved", "norm"):
                document[name] = float.fromhex(document[name]) if document[name] else None
            reports.append(ProcessReport(**document))
    return reports


def lead_report(reports: list[ProcessReport]) -> ProcessReport | None:
    """The report of the first rank; of several jobs, of the one with most steps."""
    return min(reports, key=lambda one: (one.rank or 0, -len(one.marks)), default=None)


def was_stopped(recording: Path) -> bool:
    """Whether a process stopped because it had done the requested steps."""
    return any(one.ended == "stopped" for one in read_reports(recording))
