"""``torch.compile`` in a watched process: what was compiled, when, and why again."""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.analysis.lines.source_lines import in_library
from whyidle.analysis.steps.step_scope import HABIT
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.process_facts import Compilation, CompilerFacts
from whyidle.model.roles import Role

_SOURCE = "torch._dynamo"
_GENERATOR = "iterator: another object of class generator"
_NUMBER = re.compile(r": the Python value|^\d+/\d+: L\['\w+'\] == -?\d+\.\d")
"""a Python value of TensorFlow, or a floating-point one of PyTorch, which is no length"""
_RENEWED = {
    "number": re.compile(r"Static\(val=-?[\d.]+(e-?\d+)?\)"),
    "function": re.compile(r"another function defined on the same line"),
    "object": re.compile(r"\bat 0x[0-9a-f]+|pytree metadata"),
}
"""what is made anew -> the reason to compile again. A value that prints its address is compared by
identity, and static arguments (metadata of a tree) by equality, which functions in them do not have
"""


def compiler_facts(facts: Facts) -> CompilerFacts | None:
    """Return what the process recorded about its compiler, if anything."""
    return facts.timeline.process.compile


def _compiles(facts: Facts) -> tuple[Compilation, ...]:
    noted = compiler_facts(facts)
    return noted.compiles if noted else ()


def recompilations(facts: Facts) -> tuple[Intervals, int]:
    """Return when functions were compiled again habitually, and in how many steps in scope. Steps
    that run beside the host are told by their calls: between two, the host compiles at most for
    one step, such as an evaluation after an epoch."""
    steps: dict[tuple[str, int, str, str], set[int]] = {}
    starts, base_ns = facts.steps.on_host[0], facts.timeline.base_ns
    if len(facts.timeline.rows_of(Role.EXECUTION)):
        calls = np.sort(facts.timeline.host.start[facts.timeline.rows_of(Role.OPTIMIZER)])
        starts = calls[:: max(1, len(calls) // len(starts))][: len(starts)]
    for run in _compiles(facts):
        index = np.searchsorted(starts, run.began - base_ns, side="right") - 1
        step = int(np.clip(index, 0, len(starts) - 1))
        if run.turn > 1 and step > 0 and facts.steps_in_scope[step]:
            kind = re.sub(r"\d[\d.]*", "#", first_line(run.reason or ""))
            steps.setdefault((run.file, run.line, run.function, kind), set()).add(step)
    if max(map(len, steps.values()), default=0) < HABIT:
        return EMPTY, 0
    host = facts.timeline.host
    rows = facts.rows_of(Role.RECOMPILE)
    rows = rows[host.start[rows] >= facts.steps.on_host[1][0]]
    return union_of(host.start[rows], host.end[rows]), len(set().union(*steps.values()))


def renewed_kind(facts: Facts) -> str:
    """Return what is made anew for most recompiling, by JAX's words: a ``function`` that is defined
    again, an ``object`` or a ``number`` as static argument; "" where none is."""
    again = [run for run in _compiles(facts) if run.turn > 1]
    half = sum(run.seconds for run in again) / 2
    for kind, reason in _RENEWED.items():
        if sum(run.seconds for run in again if reason.search(run.reason or "")) > half:
            return kind
    return ""


def compiled_functions(facts: Facts, *, again: bool) -> tuple[Place, ...]:
    """Return the function that took longest to compile; with ``again`` count repetitions only."""
    spent: defaultdict[tuple[str, int, str], float] = defaultdict(float)
    for compilation in _compiles(facts):
        if not again or compilation.turn > 1:
            spent[compilation.file, compilation.line, compilation.function] += compilation.seconds
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
    """Return why the compiler compiled again, in its own words, and where it gave up."""
    compiles = _compiles(facts)
    texts = [first_line(compilation.reason) for compilation in compiles if compilation.reason]
    failed = [compilation.failed for compilation in compiles if compilation.failed]
    evidence = []
    if texts:
        name = "last reason to compile again"
        evidence.append(make_evidence(name, texts[-1], None, samples=len(texts), source=_SOURCE))
    if failed:
        name = "failed compilation; the code runs uncompiled"
        evidence.append(make_evidence(name, failed[-1], None, samples=len(failed), source=_SOURCE))
    return tuple(evidence)


def is_for_values(facts: Facts) -> bool:
    """Return whether most traces were for Python values that changed, not for shapes."""
    reasons = [run.reason for run in _compiles(facts) if run.turn > 1 and run.reason]
    return 2 * sum(_NUMBER.search(reason) is not None for reason in reasons) > len(reasons)


def is_batch_by_generator(facts: Facts) -> bool:
    """Return whether most traces were of Keras' ``train_on_batch``: before Keras 3.9 it gives each
    batch to a traced function by a generator of its own."""
    reasons = [run.reason for run in _compiles(facts) if run.turn > 1 and run.reason]
    known = sum(reason.startswith(_GENERATOR) for reason in reasons)
    return 2 * known > len(reasons)


def first_line(text: str) -> str:
    """Return the first line of a compiler message without runs of blanks."""
    return re.sub(r"\s+", " ", (text.strip().splitlines() or [""])[0])
