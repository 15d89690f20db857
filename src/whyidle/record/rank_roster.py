"""Checks which ranks of a watched job started, trained and stayed alive."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from whyidle.diagnosis.job_starts import start_of, steps_of
from whyidle.model.timeline import Timeline
from whyidle.probe import wire
from whyidle.readers.probe.loader_records import read_document
from whyidle.readers.probe.process_facts import read_facts

STAYED_NS = 1_000_000_000
"""ranks write four times a second; a rank silent for this long before the others has stopped"""
_OF_OTHERS = re.compile(
    r"gloo|nccl|connection (closed|reset|refused)|timed out|broken pipe|^Dist[A-Z]\w*Error", re.I
)
"""errors of a collective whose peer is gone"""
_ENDS_RECORDING = (wire.WRITE_FAILED, wire.QUOTA_REACHED)


@dataclass(frozen=True, slots=True)
class RankRoster:
    """Ranks of one job that started and that trained; ``world``: the expected number."""

    world: int
    started: frozenset[int]
    trained: frozenset[int]

    @classmethod
    def read_roster(cls, recording: Path, timelines: Sequence[Timeline]) -> RankRoster:
        """Read the ranks that processes noted (``PID.rank.json``)."""
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
        """Ranks without a process."""
        return sorted(set(range(self.world)) - self.started)

    @property
    def idle_ranks(self) -> list[int]:
        """Ranks that started, but took no step."""
        return sorted(self.started - self.trained)


def notes_on(recording: Path, timelines: Sequence[Timeline], status: int | None) -> list[str]:
    """Note ranks that did not start, did not train, or died."""
    roster = RankRoster.read_roster(recording, timelines)
    if roster.world < 2:
        return []
    notes = []
    if roster.absent_ranks:
        notes.append(
            f"{_format_ranks(roster.absent_ranks)} of {roster.world} did not start on this host, "
            "as far as the probe can see"
        )
    if roster.idle_ranks:
        notes.append(f"{_format_ranks(roster.idle_ranks)} started, but took no training step")
    return notes + (_failed_ranks(timelines) if status != 0 else [])


def notes_on_starts(ranks: Sequence[Timeline], others: Sequence[Sequence[Timeline]]) -> list[str]:
    """Note the ``others`` among several starts by a launcher; the diagnosis is of ``ranks``."""
    every = sorted([ranks, *others], key=lambda start: _last_sign(start[0]))
    notes = []
    for turn, start in enumerate(every, 1):
        if start is ranks:
            continue
        why = _failed_ranks(start) or ["the reason is unknown"]
        notes.append(
            f"the launcher started the ranks {len(every)} times; start {turn} ended after at least "
            f"{max(map(steps_of, start))} optimizer steps: {'; '.join(why)}"
        )
    return notes


def _failed_ranks(timelines: Sequence[Timeline]) -> list[str]:
    """Note ranks that ended the job: by their own exception, or silent before the others."""
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
        return []  # a recording ended before its process, so its last event says nothing
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
                f"{silent / 1e9:.1f} s before the last activity of the others"
            )
    return notes


def _cut_short(timeline: Timeline) -> bool:
    """Whether the recording ended before its process, by its facts or, if the disk was full, by its
    file of faults, which is empty if there was no space for that either."""
    if timeline.process.enough is not None:
        return True
    spans = Path(timeline.source.path)
    process = spans.name.split(".")[0].split("-")[0]
    try:
        noted = spans.with_name(f"{process}.faults").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return not noted or any(line.startswith(_ENDS_RECORDING) for line in noted.splitlines())


def _own_error(timeline: Timeline) -> bool:
    """Whether an exception of its own ended it, neither Ctrl-C nor a failed peer."""
    error = timeline.process.failure
    return bool(error) and not _OF_OTHERS.search(error)


def _last_sign(timeline: Timeline) -> int:
    return timeline.base_ns + int(timeline.host.end.max(initial=0))


def _format_ranks(numbers: Sequence[int]) -> str:
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
