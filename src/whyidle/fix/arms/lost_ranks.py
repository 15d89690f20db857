"""The ranks of an arm: their reports, and ranks that died without one."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from whyidle.fix.arms.process_report import ProcessReport, read_reports

try:
    import fcntl
except ImportError:  # without file locks, dead ranks cannot be recognised
    fcntl = None  # type: ignore[assignment]

LOST_S = 5.0  # time for the other ranks or the launcher to exit after a rank died


def by_rank(reports: Iterable[ProcessReport]) -> dict[int, ProcessReport]:
    """Reports by rank, of a restarted rank the longest. A job without ranks is rank 0."""
    by_length = sorted(reports, key=lambda one: len(one.marks))
    ranks = {one.rank: one for one in by_length if one.rank is not None}
    return dict(sorted(ranks.items())) or dict(zip((0,), by_length[-1:], strict=False))


def find_lost_ranks(recording: Path) -> list[int]:
    """Ranks that trained and ended by an error or without a report. The lock that a rank holds on
    its file is released when it dies."""
    reported = {path.name.partition(".")[0] for path in recording.glob("*.trial.json")}
    dead = [
        path
        for path in recording.glob("*.rank")
        if path.stem not in reported and _is_lock_free(path)
    ]
    lost = {one.rank for one in read_reports(recording) if one.ended == "crashed" and one.world > 1}
    for path in dead:
        with suppress(OSError, ValueError):
            lost.add(int(path.read_text("ascii")))
    return sorted(rank for rank in lost if rank is not None)


def _is_lock_free(path: Path) -> bool:
    if fcntl is None:
        return False
    try:
        with path.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
