"""Which ranks of a watched job came, trained and stayed: from what each process wrote itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from whyidle.importers._loading import document
from whyidle.model.timeline import Timeline

STAYED_NS = 1_000_000_000
"""ranks write four times a second; one that is silent so long before the others has stopped"""


@dataclass(frozen=True, slots=True)
class Roster:
    """Ranks of one job by what became of them. ``world`` is how many there should be."""

    world: int
    started: frozenset[int]
    trained: frozenset[int]

    @classmethod
    def of(cls, recording: Path, timelines: Sequence[Timeline]) -> Roster:
        """Read the places that processes noted (``PID.rank.json``)."""
        places = [document(path) for path in sorted(recording.glob("*.rank.json"))]
        worlds = [place.get("world_size") for place in places]
        worlds += [timeline.world_size for timeline in timelines]
        ranks = [place.get("rank") for place in places]
        trained = frozenset(t.rank for t in timelines if t.rank is not None)
        started = frozenset(rank for rank in ranks if isinstance(rank, int))
        sizes = [size for size in worlds if isinstance(size, int)]
        return cls(max(sizes, default=1), started | trained, trained)

    @property
    def absent(self) -> list[int]:
        """Ranks of which no process was seen."""
        return sorted(set(range(self.world)) - self.started)

    @property
    def idle(self) -> list[int]:
        """Ranks that started and never trained a step."""
        return sorted(self.started - self.trained)


def notes_on(recording: Path, timelines: Sequence[Timeline], status: int | None) -> list[str]:
    """What must be said of ranks that did not come, did not train, or did not stay."""
    roster = Roster.of(recording, timelines)
    if roster.world < 2:
        return []
    notes = []
    if roster.absent:
        notes.append(
            f"{_ranks(roster.absent)} of {roster.world} never started on this host, as far as the "
            "probe could see"
        )
    if roster.idle:
        notes.append(f"{_ranks(roster.idle)} started and never trained a step")
    return notes + (_gone(timelines) if status != 0 else [])


def _gone(timelines: Sequence[Timeline]) -> list[str]:
    """Ranks that fell silent before the others: killed, where others came to their end."""
    ranks = [timeline for timeline in timelines if timeline.rank is not None]
    if len(ranks) < 2:
        return []
    last = {t.rank: t.base_ns + int(t.host.end.max(initial=0)) for t in ranks}
    alive = max(last.values())
    ended = any("ended" in timeline.settings for timeline in ranks)
    notes = []
    for timeline in ranks:
        silent = alive - last[timeline.rank]
        killed = ended and "ended" not in timeline.settings
        if killed or silent > STAYED_NS:
            how = "was killed or crashed" if killed else "stopped"
            notes.append(
                f"rank {timeline.rank} {how} after at least {_steps(timeline)} optimizer steps, "
                f"{silent / 1e9:.1f} s before the last sign of the others"
            )
    return notes


def _steps(timeline: Timeline) -> int:
    return sum(timeline.names[i].startswith("Optimizer.step#") for i in timeline.host.name)


def _ranks(numbers: Sequence[int]) -> str:
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
