"""What the processes of an arm wrote of themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

FEWEST = 12
"""steps that can be compared"""


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """Of one process: ns of a clock that all processes share; the loss of each backward pass; how
    far some parameters went in the first steps, and the norm of all of them then; whether a step
    ``drew`` random numbers; what the ``device`` held after some steps (how many were done, bytes),
    and what it has left; ``memory_bytes`` of the host that the process held at most, and
    ``device_peak`` that its tensors did of the device; how many ``samples`` the steps up to each
    mark have used, where that was counted; of how much gradients scatter, from step to step, what
    ``gradient_noise.py`` sees; after how many steps, and when, its device was ``drained``: waited
    for at the first of them, and known to be done at the others; after how many steps code was
    ``compiled``, and how long, ns; whether its results were to be off,
    and were not to the end (``unswayed``); which of the job's ``files`` were loaded, each with the
    folders that it was found from as a module (None: not known); and whether it was stopped, ended
    by itself (finished), or by an error (crashed)."""

    ended: str
    begun: int
    marks: list[int]
    losses: list[float]
    rank: int | None = None
    world: int = 1
    memory_bytes: int | None = None
    moved: float | None = None
    norm: float | None = None
    drew: bool | None = None
    device: Sequence[Sequence[int]] = ()
    device_free: int | None = None
    device_peak: int | None = None
    samples: Sequence[int] = ()
    noise: Sequence[Sequence[float]] = ()
    drained: Sequence[Sequence[int]] = ()
    compiled: Sequence[Sequence[int]] = ()
    unswayed: bool = False
    files: Mapping[str, Sequence[str]] | None = None


def read_reports(recording: Path) -> list[ProcessReport]:
    """Of every process that trained; what cannot be read is none."""
    found = []
    for path in sorted(recording.glob("*.trial.json")):
        with suppress(OSError, ValueError, TypeError, KeyError):
            told = json.loads(path.read_text(encoding="utf-8"))
            told["losses"] = [float.fromhex(loss) for loss in told["losses"]]
            for name in ("moved", "norm"):
                told[name] = float.fromhex(told[name]) if told[name] else None
            found.append(ProcessReport(**told))
    return found


def lead_report(found: list[ProcessReport]) -> ProcessReport | None:
    """The first rank; of several jobs the one that made most steps."""
    return min(found, key=lambda one: (one.rank or 0, -len(one.marks)), default=None)


class RungReport(NamedTuple):
    """What the first rank told on the way: which rung it has come to (1, 2, ...), and seconds of a
    step by then, or of a sample, as it was asked."""

    number: int
    step_s: float


def last_rung(recording: Path) -> RungReport | None:
    """The last one."""
    found = []
    for path in sorted(recording.glob("*.rung.json")):
        with suppress(OSError, ValueError, TypeError, KeyError):
            told = json.loads(path.read_text(encoding="utf-8"))
            rank = int(told["rank"] or 0)
            found.append((rank, -told["rung"], RungReport(told["rung"], float(told["step_s"]))))
    return min(found)[2] if found else None


def was_stopped(recording: Path) -> bool:
    """Whether a process has been stopped because it had run long enough."""
    return any(one.ended == "stopped" for one in read_reports(recording))
