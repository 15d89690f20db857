"""Which ranks of a watched job came, trained and stayed: from what each process wrote itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from whyidle.engine.diagnosis.job_starts import start_of, steps_of
from whyidle.importers._loader_records import read_document
from whyidle.importers._process_facts import read_facts
from whyidle.model.timeline import Timeline

STAYED_NS = 1_000_000_000
"""ranks write four times a second; one that is silent so long before the others has stopped"""
_OF_OTHERS = re.compile(
    r"gloo|nccl|connection (closed|reset|refused)|timed out|broken pipe|^Dist[A-Z]\w*Error", re.I
)
"""errors of a collective whose other end is gone"""
_WRITING = "writing: "
"""begins the note of a fault after which a process records nothing more"""


@dataclass(frozen=True, slots=True)
class RankRoster:
    """Ranks of one job by what became of them. ``world`` is how many there should be."""

    world: int
    started: frozenset[int]
    trained: frozenset[int]

    @classmethod
    def read_roster(cls, recording: Path, timelines: Sequence[Timeline]) -> RankRoster:
        """Read the places that processes noted (``PID.rank.json``)."""
        places = [read_document(path) for path in sorted(recording.glob("*.rank.json"))]
        starts = {start_of(timeline.process) for timeline in timelines}
        places = [place for place in places if start_of(read_facts(place)) in starts]
        worlds = [place.get("world_size") for place in places]
        worlds += [timeline.world_size for timeline in timelines]
        ranks = [place.get("rank") for place in places]
        trained = frozenset(t.rank for t in timelines if t.rank is not None)
        started = frozenset(rank for rank in ranks if isinstance(rank, int))
        sizes = [size for size in worlds if isinstance(size, int)]
        return cls(max(sizes, default=1), started | trained, trained)

    @property
    def absent_ranks(self) -> list[int]:
        """Ranks of which no process was seen."""
        return sorted(set(range(self.world)) - self.started)

    @property
    def idle_ranks(self) -> list[int]:
        """Ranks that started and never trained a step."""
        return sorted(self.started - self.trained)


def notes_on(recording: Path, timelines: Sequence[Timeline], status: int | None) -> list[str]:
    """What must be said of ranks that did not come, did not train, or did not stay."""
    roster = RankRoster.read_roster(recording, timelines)
    if roster.world < 2:
        return []
    notes = []
    if roster.absent_ranks:
        notes.append(
            f"{_format_ranks(roster.absent_ranks)} of {roster.world} never started on this host, "
            "as far as the "
            "probe could see"
        )
    if roster.idle_ranks:
        notes.append(f"{_format_ranks(roster.idle_ranks)} started and never trained a step")
    return notes + (_failed_ranks(timelines) if status != 0 else [])


def notes_on_starts(ranks: Sequence[Timeline], others: Sequence[Sequence[Timeline]]) -> list[str]:
    """What must be said where a launcher started the ranks several times: this diagnosis is of
    ``ranks``, and ``others`` are the starts besides."""
    every = sorted([ranks, *others], key=lambda start: _last_sign(start[0]))
    notes = []
    for turn, start in enumerate(every, 1):
        if start is ranks:
            continue
        why = _failed_ranks(start) or ["what ended it is not known"]
        notes.append(
            f"the launcher started the ranks {len(every)} times; start {turn} ended after at least "
            f"{max(map(steps_of, start))} optimizer steps: {'; '.join(why)}"
        )
    return notes


def _failed_ranks(timelines: Sequence[Timeline]) -> list[str]:
    """Ranks that ended the job: by an exception of their own, or silent before the others."""
    ranks = [timeline for timeline in timelines if timeline.rank is not None]
    if len(ranks) < 2:
        return []
    raised = [timeline for timeline in ranks if _own_error(timeline)]
    if raised:
        return [
            f"rank {timeline.rank} ended by {timeline.process.died_of} after at least "
            f"{steps_of(timeline)} optimizer steps"
            for timeline in sorted(raised, key=_last_sign)
        ]
    if any(map(_cut_short, ranks)):
        return []  # its recording ended before it did: its last sign says nothing
    alive = max(map(_last_sign, ranks))
    ended = any(timeline.process.ended is not None for timeline in ranks)
    notes = []
    for timeline in ranks:
        silent = alive - _last_sign(timeline)
        killed = ended and timeline.process.ended is None
        if killed or silent > STAYED_NS:
            how = "was killed or crashed" if killed else "stopped"
            notes.append(
                f"rank {timeline.rank} {how} after at least {steps_of(timeline)} optimizer steps, "
                f"{silent / 1e9:.1f} s before the last sign of the others"
            )
    return notes


def _cut_short(timeline: Timeline) -> bool:
    """Whether its recording ended before it did, as its facts say. A full disk may not have taken
    them, but the note of its fault; where there was no room for that either, it is empty."""
    if timeline.process.enough is not None:
        return True
    spans = Path(timeline.source.path)
    process = spans.name.split(".")[0].split("-")[0]
    try:
        noted = spans.with_name(f"{process}.faults").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return not noted or any(line.startswith(_WRITING) for line in noted.splitlines())


def _own_error(timeline: Timeline) -> bool:
    """Whether an exception ended it, one of its own that nobody asked for."""
    told = timeline.process.died_of
    if told is None or told.startswith(KeyboardInterrupt.__name__):
        return False
    return not _OF_OTHERS.search(told)


def _last_sign(timeline: Timeline) -> int:
    """The last sign of a rank, on the clock that all share."""
    return timeline.base_ns + int(timeline.host.end.max(initial=0))


def _format_ranks(numbers: Sequence[int]) -> str:
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
