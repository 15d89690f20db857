"""What a watched process says about ``torch.compile``: what was compiled, when, and why again."""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.analysis.source_places import in_library
from whyidle.analysis.step_scope import HABIT
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.process_facts import Compilation, CompilerFacts
from whyidle.model.roles import Role

_HANDED = re.compile(r"^\d+/\d+: ___stack\d+ ==")
"""a guard on a number that the code before a graph break left for the code behind it"""


def compiler_facts(facts: Facts) -> CompilerFacts | None:
    """What the process noted about its compiler; None where nothing was compiled or seen."""
    return facts.timeline.process.compile


def _compiles(facts: Facts) -> tuple[Compilation, ...]:
    noted = compiler_facts(facts)
    return noted.compiles if noted else ()


def recompilations(facts: Facts) -> tuple[Intervals, int]:
    """When functions were compiled that had been compiled before, and in how many steps in scope
    behind the first; nothing where that is no habit."""
    steps: dict[tuple[str, int, str, str], set[int]] = {}
    for one in _compiles(facts):
        step = _step_at(facts, one.began - facts.timeline.base_ns)
        if one.turn > 1 and step > 0 and facts.steps_in_scope[step]:
            kind = re.sub(r"\d[\d.]*", "#", first_line(one.reason or ""))
            steps.setdefault((one.file, one.line, one.function, kind), set()).add(step)
    if max(map(len, steps.values()), default=0) < HABIT:
        return EMPTY, 0
    host = facts.timeline.host
    rows = facts.rows_of(Role.RECOMPILE)
    rows = rows[host.start[rows] >= facts.steps.on_host[1][0]]
    return union_of(host.start[rows], host.end[rows]), len(set().union(*steps.values()))


def handed_on(facts: Facts) -> bool:
    """Whether most of the time of compiling again went into numbers that a graph break hands on: to
    the code behind it each is a constant, and another one another version."""
    again = [one for one in _compiles(facts) if one.turn > 1]
    mine = [one for one in again if _HANDED.match(first_line(one.reason or ""))]
    whole = sum(one.seconds for one in again)
    noted = compiler_facts(facts)
    return (
        noted is not None
        and bool(noted.graph_breaks and mine)
        and 2 * sum(one.seconds for one in mine) > whole
    )


def _step_at(facts: Facts, time: int) -> int:
    """The step in which the host was at a moment."""
    starts, _ = facts.steps.on_host
    return int(np.clip(np.searchsorted(starts, time, side="right") - 1, 0, len(starts) - 1))


def compiled_functions(facts: Facts, *, again: bool) -> tuple[Place, ...]:
    """The function that took longest to compile; with ``again`` the repetitions alone count."""
    spent: defaultdict[tuple[str, int, str], float] = defaultdict(float)
    for one in _compiles(facts):
        if not again or one.turn > 1:
            spent[one.file, one.line, one.function] += one.seconds
    places = [
        _function_place(facts, key) for key in sorted(spent, key=spent.__getitem__, reverse=True)
    ]
    own = [place for place in places if not in_library(place)]
    return tuple((own or places)[:1])


def _function_place(facts: Facts, key: tuple[str, int, str]) -> Place:
    file, line, function = key
    resumed = facts.timeline.vocabulary.parts(Role.RESUMED_FRAME, function)
    if resumed:
        line, function = int(resumed["line"]), resumed["function"]
    return Place(file=file, line=line, function=function, rank=facts.rank)


def recompile_reasons(facts: Facts) -> tuple[Evidence, ...]:
    """Why it compiled again, in the compiler's own words, and where it gave up."""
    compiles = _compiles(facts)
    texts = [first_line(one.reason) for one in compiles if one.reason]
    failed = [one.failed for one in compiles if one.failed]
    found = []
    if texts:
        found.append(
            make_evidence(
                "last reason to compile again", texts[-1], None, samples=len(texts),
                source="torch._dynamo",
            )
        )  # fmt: skip
    if failed:
        found.append(
            make_evidence(
                "compilations given up: the code runs without", failed[-1], None,
                samples=len(failed), source="torch._dynamo",
            )
        )  # fmt: skip
    return tuple(found)


def first_line(text: str) -> str:
    """The first line of a compiler's message, without runs of blanks."""
    return re.sub(r"\s+", " ", (text.strip().splitlines() or [""])[0])
