"""Which lines of the user's program the stack samples of a watched process point at."""

from __future__ import annotations

import re
from collections import Counter
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from whyidle.analysis.codes import is_among
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.source_places import frame_place, in_library, package_of
from whyidle.model.diagnosis import Place
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

_PROMPT = re.compile(
    r"(^|[/;])(pdb|bdb|cmd|code)\.py\(|/(ipykernel|IPython|prompt_toolkit|zmq|debugpy|pydevd)/"
)


def busiest_lines(facts: Facts, spans: Intervals, most: int = 3) -> tuple[Place, ...]:
    """The user's lines that most samples in some time point at."""
    return tuple(place for place, _ in lines_with_share(facts, spans, HostKind.PYTHON)[:most])


class RunningLines(NamedTuple):
    """Lines of the user's, those at which Python was seen running first. ``before``: at none was it
    seen, so these are lines before which it ran. ``library``: at the first it mostly runs in this
    package, which is called there; empty where it is the user's own."""

    where: tuple[Place, ...]
    before: bool
    library: str


def running_lines(facts: Facts, spans: Intervals, most: int = 3) -> RunningLines:
    """Where Python ran in some time. Where it was seen in libraries only, that tells nothing of
    what ran before the lines of other looks, if these are more."""
    shown = busiest_lines(facts, spans, most)
    over = sampled_stacks(facts, spans, HostKind.PYTHON, after=True)
    seen = sampled_stacks(facts, spans, HostKind.PYTHON, after=False)
    if not over:
        return RunningLines(shown, before=False, library=_library_at(seen, shown))
    own = Counter({s: time for s, time in seen.items() if _own_line(s) == s.split(";", 1)[0]})
    ran = _lines(facts, own)
    if not ran and seen.total() > over.total():
        ran = _lines(facts, seen)
    where = tuple(dict.fromkeys([*ran, *shown]))[:most]
    return RunningLines(
        where, before=not ran, library=_library_at(own or seen, where) if ran else ""
    )


def _lines(facts: Facts, seen: Counter[str]) -> list[Place]:
    """The user's lines in stacks, those with the most time first."""
    spent: Counter[str] = Counter()
    for stack, time in seen.items():
        spent[_own_line(stack)] += time
    places = [frame_place(text, facts.rank) for text, _ in spent.most_common()]
    return [place for place in places if place is not None and not in_library(place)]


def _library_at(seen: Counter[str], where: tuple[Place, ...]) -> str:
    """The package in which most of the time at the first place is spent."""
    spent: Counter[str] = Counter()
    for stack, time in seen.items():
        if where and frame_place(_own_line(stack), where[0].rank) == where[0]:
            spent[package_of(stack.split(";", 1)[0])] += time
    return max(spent, key=lambda name: spent[name], default="")


def lines_with_share(
    facts: Facts, spans: Intervals, *kinds: HostKind, inside: Role | None = None
) -> list[tuple[Place, float]]:
    """The user's lines that samples in some time point at, each with its share of what these
    samples speak for, the largest first. Of a call that a frame of the role ``inside`` makes, lines
    that lie further out are its callers, and not meant."""
    spent: Counter[str] = Counter()
    for stack, time in sampled_stacks(facts, spans, *kinds).items():
        spent[_own_line(_up_to(facts, stack, inside) if inside else stack)] += time
    whole = max(sum(spent.values()), 1)
    found = [(frame_place(text, facts.rank), time / whole) for text, time in spent.most_common()]
    places = [(place, share) for place, share in found if place is not None]
    return [one for one in places if not in_library(one[0])] or places


def _up_to(facts: Facts, stack: str, role: Role) -> str:
    """The frames of a stack inside the innermost one of a role; all, where none is."""
    frames, plays = stack.split(";"), facts.timeline.vocabulary.plays
    return ";".join(takewhile(lambda frame: not plays(role, frame), frames))


def describe_place(place: Place) -> str:
    """A place in a headline: its function, or its line where that has no name of its own."""
    name = place.function or ""
    return f"in {name}" if name.isidentifier() else f"at line {place.line}"


def sampled_stacks(
    facts: Facts, spans: Intervals, *kinds: HostKind, after: bool | None = None
) -> Counter[str]:
    """Every sampled stack in some time -> ns that it speaks for; of events of some kinds only, and
    of looks only that show the line at which Python was over (``after``), or that do not."""
    timeline, host = facts.timeline, facts.timeline.host
    rows = np.flatnonzero((host.detail >= 0) & (is_among(host.kind, kinds) if kinds else True))
    spent: Counter[str] = Counter()
    inside = spans.length_inside(host.start[rows], host.end[rows])
    for row, time in zip(rows[inside > 0], inside[inside > 0], strict=True):
        told = timeline.details[host.detail[row]]
        if told.stack and after in (None, told.after):
            spent[told.stack] += int(time)
    return spent


def prompt_waits(facts: Facts) -> Intervals:
    """When a thread waited in the code of a debugger, a prompt or a notebook."""
    host, details = facts.timeline.host, facts.timeline.details
    rows = facts.timeline.rows_of(Role.BLOCKED)
    asks = [bool(_PROMPT.search(details[host.detail[row]].stack)) for row in rows]
    rows = rows[np.array(asks, dtype=bool)]
    return union_of(host.start[rows], host.end[rows])


def _own_line(stack: str) -> str:
    frames = stack.split(";")
    for text in frames:
        place = frame_place(text, None)
        if place is not None and not in_library(place):
            return text
    return frames[0]
