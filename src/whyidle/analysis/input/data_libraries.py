"""The libraries that give a training loop its batches, and how they convert rows."""

from __future__ import annotations

import re
from collections import Counter
from typing import Literal, NamedTuple

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.lines.sampled_lines import sampled_stacks
from whyidle.model.cause import MOSTLY
from whyidle.model.frames import INSTALLED
from whyidle.model.roles import Role

Conversion = Literal["", "objects", "rows", "single"]
"""what Hugging Face ``datasets`` mostly does: makes Python objects of values, arrays of the rows of
a batch, or arrays of rows that the loop asks for one by one"""
LIBRARIES = {"grain": "Grain", "datasets": "Hugging Face datasets", "webdataset": "WebDataset"} | {
    "nvidia": "DALI"
}
"""package -> name"""
STARVED = 0.1
"""least share of the step that waits for batches, from which who makes them sets the pace. tf.data
does not count the time of a generator; while steps wait for it, it makes a batch per step"""
HANDED_NS = 1_000_000
"""most that a request costs whose batch is ready: 0.5 to 0.9 ms of Python with Keras on TensorFlow,
0.02 on JAX (two virtual cores)"""
_THREAD_WAIT = re.compile(r"[^;]*lib/python3\.\d+t?/(threading|queue|concurrent/futures/_base)\.py")
_FORMATTING = re.compile(rf"{INSTALLED}datasets/formatting/")
_ARRAYS = re.compile(rf"{INSTALLED}datasets/formatting/\w+_formatter\.py")


class IteratedLibrary(NamedTuple):
    """The package whose iterators a loop asks for its batches, its requests and their number."""

    package: str
    spans: Intervals
    requests: int


def iterated_library(facts: Facts) -> IteratedLibrary | None:
    """Return the library whose iterators a watched loop asks for its batches; None of none."""
    timeline, host = facts.timeline, facts.timeline.host
    rows = facts.rows_of(Role.BATCH_REQUEST)
    rows = rows[facts.host_scope.contains_times(host.start[rows])]
    names = Counter(timeline.names[name].partition(".")[0] for name in host.name[rows].tolist())
    package = names.most_common(1)[0][0] if names else ""
    if package not in LIBRARIES:
        return None
    return IteratedLibrary(package, union_of(host.start[rows], host.end[rows]), len(rows))


def waiting_share(facts: Facts) -> float:
    """Return the share of the step in which a watched loop waits for batches that it requested of
    an iterator."""
    host, rows = facts.timeline.host, facts.rows_of(Role.BATCH_REQUEST)
    requests = union_of(host.start[rows], host.end[rows])
    return facts.share_of(requests & facts.time_of("loader"))


def typical_waiting_share(facts: Facts, workers: int) -> float:
    """Return the share of a step that several ``workers`` make it wait in most of its time: the
    median over stretches of as many requests. The first batches of an epoch take their time however
    many workers there are, and a request that finds its batch costs ``HANDED_NS``."""
    host, rows = facts.timeline.host, facts.rows_of(Role.BATCH_REQUEST)
    rows = rows[facts.host_scope.contains_times(host.start[rows])]
    waits = np.maximum(0, host.end[rows] - host.start[rows] - HANDED_NS)
    stretches = len(rows) // workers
    if not stretches:
        return 0.0
    means = waits[: stretches * workers].reshape(stretches, workers).mean(axis=1)
    return float(np.median(means)) * len(rows) / max(facts.scope.total, 1)


def waits_for_threads(facts: Facts, iterated: IteratedLibrary) -> bool:
    """Return whether a library's calls are mostly waits for other threads, as far as samples show
    their inside: others are of the loop around them."""
    package, spans, _ = iterated
    stacks = sampled_stacks(facts, spans)
    inside = {stack: time for stack, time in stacks.items() if f"/{package}/" in stack}
    waits = sum(time for stack, time in inside.items() if _THREAD_WAIT.match(stack))
    return waits > MOSTLY * sum(inside.values())


def find_conversion(facts: Facts, spans: Intervals) -> tuple[Conversion, float]:
    """Return what ``datasets`` mostly does in ``spans`` of the training process, and its share of
    their sampled time."""
    return _divide_stacks(sampled_stacks(facts, spans))


def _divide_stacks(stacks: Counter[str]) -> tuple[Conversion, float]:
    whole = stacks.total()
    formatting = {s: time for s, time in stacks.items() if _FORMATTING.search(s)}
    spent = sum(formatting.values())
    if not whole or spent < MOSTLY * whole:
        return "", 0.0
    arrays = sum(time for stack, time in formatting.items() if _ARRAYS.search(stack))
    return "rows" if arrays >= MOSTLY * spent else "objects", spent / whole
