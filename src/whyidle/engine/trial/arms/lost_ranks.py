"""The ranks of an arm as they are seen from outside: who has told, and who died without a word."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from whyidle.engine.trial.arms.process_report import ProcessReport, read_reports

try:
    import fcntl
except ImportError:  # a system without such locks: there nobody is seen to die
    fcntl = None  # type: ignore[assignment]

LOST_S = 5.0
"""for so long the others, or their launcher, may take to end by themselves"""


def by_rank(found: Iterable[ProcessReport]) -> dict[int, ProcessReport]:
    """What each rank told; of one that was started again, the longest. A job without ranks is
    rank 0 alone."""
    each = sorted(found, key=lambda one: len(one.marks))
    ranks = {one.rank: one for one in each if one.rank is not None}
    return dict(sorted(ranks.items())) or dict(zip((0,), each[-1:], strict=False))


def find_lost_ranks(recording: Path) -> list[int]:
    """Ranks that trained and are gone: ended by an error, or without having told anything. The lock
    that a rank holds on its file is gone with it."""
    told = {path.name.partition(".")[0] for path in recording.glob("*.trial.json")}
    dead = [
        path for path in recording.glob("*.rank") if path.stem not in told and _is_lock_free(path)
    ]
    found = {
        one.rank for one in read_reports(recording) if one.ended == "crashed" and one.world > 1
    }
    for path in dead:
        with suppress(OSError, ValueError):
            found.add(int(path.read_text("ascii")))
    return sorted(rank for rank in found if rank is not None)


def _is_lock_free(path: Path) -> bool:
    """Whether nobody holds it."""
    if fcntl is None:
        return False
    try:
        with path.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
