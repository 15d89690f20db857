"""Lines of the user's program in the stack samples of a watched process."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable
from itertools import takewhile
from typing import Final, NamedTuple

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.facts import Facts
from whyidle.analysis.integer_codes import is_among
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.lines.source_lines import frame_place, in_library, package_of
from whyidle.model.diagnosis import Place
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

DISPATCHERS: Final = frozenset({"jax", "flax", "keras", "tf_keras", "tensorflow"})
"""packages that run Python of their own once in each step, before compiled code or an operator. It
does not become rarer with the job's own: Keras on PyTorch spends 1.3 ms in the calls of three
layers, ``nnx.jit`` and ``jnp.asarray`` 1.0 ms (two virtual cores)"""
_PROMPT = re.compile(
    r"(^|[/;])(pdb|bdb|cmd|code)\.py\(|/(ipykernel|IPython|prompt_toolkit|zmq|debugpy|pydevd)/"
)


def busiest_lines(facts: Facts, spans: Intervals, most: int = 3) -> tuple[Place, ...]:
    """Return the user's lines with most samples in ``spans``."""
    return tuple(place for place, _ in lines_with_share(facts, spans, HostKind.PYTHON)[:most])


class RunningLines(NamedTuple):
    """The user's lines, those first at which Python was running."""

    where: tuple[Place, ...]  # the lines
    before: bool  # Python ran at none of them, but before them
    library: str
    """package called at the first line in which Python mostly runs; "": the user's code"""


def running_lines(facts: Facts, spans: Intervals, most: int = 3) -> RunningLines:
    """Return where Python ran in ``spans``, as far as samples outside libraries show."""
    shown = busiest_lines(facts, spans, most)
    ended = sampled_stacks(facts, spans, HostKind.PYTHON, after=True)
    running = sampled_stacks(facts, spans, HostKind.PYTHON, after=False)
    if not ended:
        return RunningLines(shown, before=False, library=_library_at(running, shown))
    own = Counter({s: time for s, time in running.items() if _own_line(s) == s.split(";", 1)[0]})
    ran = _lines(facts, own)
    if not ran and running.total() > ended.total():
        ran = _lines(facts, running)
    where = tuple(dict.fromkeys([*ran, *shown]))[:most]
    return RunningLines(
        where, before=not ran, library=_library_at(own or running, where) if ran else ""
    )


def _lines(facts: Facts, stacks: Counter[str]) -> list[Place]:
    spent: Counter[str] = Counter()
    for stack, time in stacks.items():
        spent[_own_line(stack)] += time
    places = [frame_place(text, facts.rank) for text, _ in spent.most_common()]
    return [place for place in places if place is not None and not in_library(place)]


def _library_at(stacks: Counter[str], lines: tuple[Place, ...]) -> str:
    spent: Counter[str] = Counter()
    for stack, time in stacks.items():
        if lines and frame_place(_own_line(stack), lines[0].rank) == lines[0]:
            spent[package_of(stack.split(";", 1)[0])] += time
    return max(spent, key=lambda name: spent[name], default="")


def lines_with_share(
    facts: Facts, spans: Intervals, *kinds: HostKind, inside: Role | None = None
) -> list[tuple[Place, float]]:
    """Return the user's lines in samples of ``spans`` with their share of the weight, the largest
    first, only within calls of a frame of the role ``inside``, if given."""
    spent: Counter[str] = Counter()
    plays = facts.timeline.vocabulary.plays
    for stack, time in sampled_stacks(facts, spans, *kinds).items():
        frames = takewhile(lambda frame: not (inside and plays(inside, frame)), stack.split(";"))
        spent[_own_line(";".join(frames))] += time
    total = max(sum(spent.values()), 1)
    lines = [(frame_place(text, facts.rank), time / total) for text, time in spent.most_common()]
    places = [(place, share) for place, share in lines if place is not None]
    return [line for line in places if not in_library(line[0])] or places


def own_lines(facts: Facts, spans: Intervals) -> tuple[Place, ...]:
    """Return the user's lines in samples of ``spans``, the largest first; no library's."""
    return tuple(place for place, _ in lines_with_share(facts, spans) if not in_library(place))


def describe_place(place: Place) -> str:
    """Return a place for a headline: its function, or its line if that has no name of its own."""
    name = place.function or ""
    return f"in {name}" if name.isidentifier() else f"at line {place.line}"


def sampled_stacks(
    facts: Facts, spans: Intervals, *kinds: HostKind, after: bool | None = None
) -> Counter[str]:
    """Return every sampled stack in ``spans`` with its weight, ns; only of some kinds, or only at
    lines at which Python had ended (``after``) or not."""
    timeline, host = facts.timeline, facts.timeline.host
    rows = np.flatnonzero((host.detail >= 0) & (is_among(host.kind, kinds) if kinds else True))
    spent: Counter[str] = Counter()
    inside = spans.length_inside(host.start[rows], host.end[rows])
    for row, time in zip(rows[inside > 0], inside[inside > 0], strict=True):
        detail = timeline.details[host.detail[row]]
        if detail.stack and after in (None, detail.after):
            spent[detail.stack] += int(time)
    return spent


def prompt_waits(facts: Facts) -> Intervals:
    """Return when a thread waited in a debugger, a prompt or a notebook."""
    blocked = facts.timeline.rows_of(Role.BLOCKED)
    return sampled_where(facts, lambda stack: bool(_PROMPT.search(stack)), blocked)


def framework_waits(facts: Facts) -> Intervals:
    """Return when a thread waited for a framework's device or threads: in its own code, or without
    a frame of it at a line that calls its code, such as the end of ``fit``."""

    def is_dispatching(stack: str) -> bool:
        packages = map(package_of, stack.split(";"))
        return next((x for x in packages if x not in sys.stdlib_module_names), "") in DISPATCHERS

    calls = {_own_line(x.stack) for x in facts.timeline.details if is_dispatching(x.stack)}
    found = facts.timeline.rows_of(Role.BLOCKED)
    return sampled_where(facts, lambda x: is_dispatching(x) or x.split(";")[0] in calls, found)


def sampled_where(
    facts: Facts, matches: Callable[[str], bool], rows: I64 | None = None
) -> Intervals:
    """Return when samples, or only these ``rows`` of them, show a stack that matches."""
    host, details = facts.timeline.host, facts.timeline.details
    rows = np.flatnonzero(host.detail >= 0) if rows is None else rows
    shown = {int(one): matches(details[one].stack) for one in np.unique(host.detail[rows])}
    rows = rows[np.array([shown[int(one)] for one in host.detail[rows]], dtype=bool)]
    return union_of(host.start[rows], host.end[rows])


def _own_line(stack: str) -> str:
    frames = stack.split(";")
    for text in frames:
        place = frame_place(text, None)
        if place is not None and not in_library(place):
            return text
    return frames[0]
