"""Assigns recordings to the ranks of a job, and notes gaps and inconsistencies between them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.job import Job
from whyidle.analysis.ranks.rank_groups import groups_of
from whyidle.model.buckets import BUCKETS
from whyidle.model.cause import MOSTLY
from whyidle.model.documents.rank_tables import Attribution, RankGroupRow, RankRow
from whyidle.model.timeline import Timeline

WORTH = 0.01  # least share of the step in communication for notes about waiting
NAMED = 8  # missing ranks named individually, at most
WHOLE = 0.5  # a window with fewer events than this share of the largest is incomplete


def assign_ranks(timelines: Sequence[Timeline]) -> tuple[list[Timeline], list[str]]:
    """Give every recording of one job its own rank. Return the recordings sorted by rank, and notes
    on the assumptions.

    Recordings with the same rank, or none, are numbered by file name if they were made at the same
    time. Of consecutive windows, such as a repeated profiler schedule writes, only one is used.
    """
    if _have_distinct_ranks(timelines):
        return sorted(timelines, key=lambda timeline: timeline.rank or 0), []
    window, left_out = _one_window(timelines)
    if _have_distinct_ranks(window):
        return sorted(window, key=lambda timeline: timeline.rank or 0), left_out
    numbered, assumed = _number_ranks(window)
    return numbered, [*left_out, *assumed]


def _have_distinct_ranks(timelines: Sequence[Timeline]) -> bool:
    claims = Counter(timeline.rank for timeline in timelines)
    return len(timelines) < 2 or (None not in claims and max(claims.values()) == 1)


def _one_window(timelines: Sequence[Timeline]) -> tuple[list[Timeline], list[str]]:
    """The last complete window: the end of training may truncate the last one."""
    windows: list[list[Timeline]] = []
    until = None
    for start, end, timeline in sorted(map(_recorded_span, timelines), key=lambda span: span[:2]):
        if until is None or start >= until:
            windows.append([])
        until = end if until is None else max(until, end)
        windows[-1].append(timeline)
    if len(windows) < 2:
        return list(timelines), []
    sizes = [sum(timeline.source.events for timeline in window) for window in windows]
    index = max(i for i, size in enumerate(sizes) if size >= max(sizes) * WHOLE)
    names = ", ".join(timeline.source.display_path for timeline in windows[index][:NAMED])
    note = (
        f"the recordings are {len(windows)} consecutive windows, not concurrent ranks: only "
        f"{names} is diagnosed; to diagnose another, pass it alone"
    )
    return windows[index], [note]


def _recorded_span(timeline: Timeline) -> tuple[int, int, Timeline]:
    starts = [events.start.min() for events in (timeline.host, timeline.device) if len(events)]
    ends = [events.end.max() for events in (timeline.host, timeline.device) if len(events)]
    base = timeline.base_ns
    return base + int(min(starts, default=0)), base + int(max(ends, default=0)), timeline


def _number_ranks(timelines: Sequence[Timeline]) -> tuple[list[Timeline], list[str]]:
    claims = Counter(timeline.rank for timeline in timelines)
    named = sorted(timelines, key=lambda timeline: _natural_key(timeline.source.path))
    twice = [f"{n} recordings have rank {r}" for r, n in claims.items() if n > 1 and r is not None]
    why = twice or ["not every recording contains its rank"]
    notes = [f"{'; '.join(why)}: ranks are numbered by file name"]
    return [replace(timeline, rank=i) for i, timeline in enumerate(named)], notes


def _natural_key(path: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path)]


def notes_on(job: Job) -> list[str]:
    """Note missing ranks, mixed jobs, unaligned clocks and a lack of CPU cores."""
    if len(job.ranks) < 2:
        return _note_single_rank(job.ranks[0])
    return [
        *_note_survey(job),
        *_note_world_sizes(job),
        *_note_unrelated_ranks(job),
        *_note_step_counts(job),
        *job.meetings.notes,
        *_note_clocks(job),
        *_note_crowded_ranks(job),
    ]


def _note_survey(job: Job) -> list[str]:
    if job.everyone is job.ranks:
        return []
    closely = _format_ranks(sorted(facts.rank or 0 for facts in job.ranks))
    return [
        f"steps, attribution and waiting are of all {len(job.everyone)} ranks; causes were checked "
        f"on {len(job.ranks)} of them: {closely}"
    ]


def _note_crowded_ranks(job: Job) -> list[str]:
    late = job.imbalance.late_rank
    if late is None or late.slow_device:
        return []
    share = late.contended * job.imbalance.loss_interval[1]
    if share < WORTH:
        return []
    return [
        f"ranks wait {share:.0%} of the step for other ranks that are waiting for a CPU core: this "
        "machine has fewer cores than runnable threads"
    ]


def _note_single_rank(facts: Facts) -> list[str]:
    world, share = facts.timeline.world_size or 1, facts.bucket_share("communication")
    if world < 2 or share < WORTH:
        return []
    which = f"rank {facts.rank}" if facts.rank is not None else "one rank"
    return [
        f"only {which} of {world} was recorded: its {share:.0%} in collectives contains both "
        "transfer and waiting for slower ranks; to separate them, record every rank and pass the "
        "whole folder"
    ]


def _note_world_sizes(job: Job) -> list[str]:
    worlds = {f.timeline.world_size for f in job.everyone if f.timeline.world_size is not None}
    if len(worlds) > 1:
        sizes = ", ".join(str(size) for size in sorted(worlds))
        return [f"the recordings have different world sizes ({sizes}): pass one job only"]
    if not worlds:
        return []
    world = worlds.pop()
    if len(job.everyone) > world:
        return [
            f"{len(job.everyone)} recordings of a job with {world} ranks: several windows or jobs "
            "are mixed"
        ]
    missing = sorted(set(range(world)) - {f.rank for f in job.everyone if f.rank is not None})
    if not missing:
        return []
    return [
        f"{len(missing)} of {world} ranks are missing ({_format_ranks(missing)}); time spent "
        "waiting for them is counted as transfer"
    ]


def _format_ranks(ranks: list[int]) -> str:
    edges = [i for i, rank in enumerate(ranks) if i == 0 or rank != ranks[i - 1] + 1]
    runs = [ranks[a:b] for a, b in zip(edges, [*edges[1:], len(ranks)], strict=True)]
    words = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return ", ".join(words[:NAMED]) + (", ..." if len(words) > NAMED else "")


def _note_unrelated_ranks(job: Job) -> list[str]:
    used = [_kernel_share(facts) for facts in job.ranks]
    notes = []
    for index, own in enumerate(used):
        others = [each for i, each in enumerate(used) if i != index and each]
        if not own or not others:
            continue
        shared = max(sum(min(own[n], each.get(n, 0.0)) for n in own) for each in others)
        if shared < MOSTLY:
            notes.append(
                f"rank {job.ranks[index].rank} runs different kernels from the other ranks "
                f"({shared:.0%} of its time in common): another job or pipeline stage"
            )
    return notes


def _kernel_share(facts: Facts) -> dict[str, float]:
    rows = facts.kernels[facts.group[facts.kernels] != "communication"]
    names, index = np.unique(facts.device.name[rows], return_inverse=True)
    totals = np.bincount(index, weights=facts.durations_s(rows), minlength=len(names))
    whole = float(totals.sum()) or 1.0
    return {facts.timeline.names[i]: float(t) / whole for i, t in zip(names, totals, strict=True)}


def _note_step_counts(job: Job) -> list[str]:
    counts = [len(facts.steps) if facts.steps.found_by else 0 for facts in job.ranks]
    if len(set(counts)) == 1:
        return []
    return [
        f"ranks recorded different numbers of steps ({min(counts)} to {max(counts)}); only "
        "collectives in common steps are compared"
    ]


def _note_clocks(job: Job) -> list[str]:
    share = job.attribution["communication"]
    if share < WORTH:
        return []
    meetings = job.meetings
    if not len(meetings):
        return ["no collective was found on more than one rank, so the late rank is unknown"]
    error = meetings.clock_error_s
    if error is None:
        return ["too few collectives were recorded to align the clocks of the ranks"]
    if not meetings.is_decided.any():
        return [
            f"the clocks of the ranks are aligned to {error * 1e6:.3g} us, and ranks arrive at "
            "collectives closer together than that, so the late rank is unknown"
        ]
    return []


def rank_rows(job: Job) -> list[RankRow]:
    """The table of all ranks."""
    whole = job.whole
    several = len(whole.ranks) > 1 and len(whole.meetings) > 0
    late = whole.imbalance.lateness_s if several else None
    path = whole.imbalance.path_ratio if late is not None else None
    rows = []
    for index, facts in enumerate(whole.ranks):
        rows.append(
            RankRow(
                rank=facts.rank,
                source=facts.timeline.source.display_path,
                step_s=facts.step_s if facts.steps.found_by else None,
                attribution=Attribution(**facts.attribution),
                lateness_s=None if late is None else float(late[index]),
                waiting=float(whole.imbalance.waiting_s[index]) if several else None,
                last_ratio=None if late is None else float(whole.imbalance.last_ratio[index]),
                path_ratio=None if path is None else float(path[index]),
                steps=[Attribution(**step) for step in facts.per_step()],
            )
        )
    return rows


def rank_groups(job: Job, rows: list[RankRow]) -> list[RankGroupRow]:
    """The table of groups of ranks, by what their names tell."""
    return [
        RankGroupRow(
            kind=kind,
            name=name,
            ranks=len(members),
            step_s=_mean_known(rows[i].step_s for i in members),
            attribution=Attribution(
                **{
                    bucket: float(np.mean([getattr(rows[i].attribution, bucket) for i in members]))
                    for bucket in BUCKETS
                }
            ),
            lateness_s=max((rows[i].lateness_s or 0.0 for i in members), default=None),
            waiting=_mean_known(rows[i].waiting for i in members),
            path_ratio=sum(rows[i].path_ratio or 0.0 for i in members),
        )
        for kind, groups in groups_of(job.everyone).items()
        for name, members in groups.items()
    ]


def _mean_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
