"""Loops that call many short operators: in the model, in its loss, or beside them."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from msgspec import Struct

from whyidle.analysis.arrays import I64, Mask
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.cpu_affinity import training_cores
from whyidle.analysis.integer_codes import is_among
from whyidle.analysis.intervals import EMPTY, Intervals
from whyidle.analysis.lines.repeated_results import find_repeated_results
from whyidle.analysis.lines.source_lines import source_line
from whyidle.analysis.lines.step_by_line import StepLine
from whyidle.analysis.sampling.share_error import wilson_interval
from whyidle.model.purposes import Purpose
from whyidle.model.timeline import HostKind, StackSampleWeights

LEAST_TAKEN: Final = 1 / 3
"""least part of the samples at these lines that find the interpreter at work. Larger operators
leave its lock free; of a short one, the Python that calls it takes at least a third"""
DISPATCH_S: Final = 50e-6
"""a step that takes no longer for each node of its autograd graph has short operators, whatever
samples show: dispatching one with its gradient takes 20 to 40 us (PyTorch 2.13, two cores)"""
LEAST_FREE: Final = 0.1
"""least part of them that find its lock free, so that operators are called at all: Python alone,
such as splitting texts, never releases it for long"""
MODEL: Final = (Purpose.FORWARD, Purpose.LOSS)
BESIDE: Final = (Purpose.OTHER, Purpose.METRICS, Purpose.NORMS)
"""purposes by the names of functions (``iou``), of lines that training needs all the same"""


class OperatorLoop(Struct, frozen=True):
    """Lines inside loops that one call could replace, most time first."""

    lines: list[StepLine]
    spans: Intervals
    part: float
    """part of the time of model and loss before the backward pass that lies in them (0-1)"""
    taken: float  # part of the samples there that find the interpreter at work
    looks: int
    layer: str = ""  # of PyTorch, that could replace it


def find_operator_loop(facts: Facts) -> OperatorLoop | None:
    """Return the lines of loops over samples or elements at which samples find the interpreter at
    work. A loop outside of model and loss, such as one that assigns targets, counts where it
    calls operators: Python alone has no call on whole tensors."""
    again = find_repeated_results(facts)  # they need not be computed faster
    known = again.places if again else ()
    loops = [x for x in facts.lines if x.loop is not None and x.fixed not in known]
    beside = [line for line in loops if line.purpose in BESIDE]
    if not _calls_operators(facts, beside):
        beside = []
    model = [line for line in loops if line.purpose in MODEL]
    recurrent = [line for line in model if line.layer]
    if sum(line.time for line in recurrent) > sum(line.time for line in model) / 2:
        return _find_lines(facts, recurrent)
    model = [line for line in model if not line.layer]
    return _find_lines(facts, [*model, *_find_calls(facts, model), *beside])


def _find_calls(facts: Facts, loops: list[StepLine]) -> list[StepLine]:
    """Lines that only call a function with such a loop: what it leaves behind is freed there."""
    names = "|".join({re.escape(line.loop.function or "") for line in loops if line.loop})
    call = re.compile(rf"([\w, ]+ = |return )?([\w.]+\.)?({names})\([^()]*\)")
    lines = (line for line in facts.lines if line.purpose in MODEL and line.loop is None)
    sources = facts.timeline.sources
    return [x for x in lines if names and call.fullmatch(source_line(sources, x.place).strip())]


def find_rollout(facts: Facts) -> OperatorLoop | None:
    """Return the lines that ask a policy for one action at a time, and loops over what they gave,
    if most samples there find the interpreter at work."""
    if not any(line.in_rollout and line.purpose is Purpose.FORWARD for line in facts.lines):
        return None
    policy = (*MODEL, Purpose.OTHER)
    lines = (line for line in facts.lines if line.in_rollout or line.loop is not None)
    return _find_lines(facts, [line for line in lines if line.purpose in policy], policy)


def _find_lines(
    facts: Facts, lines: list[StepLine], trained: tuple[Purpose, ...] = MODEL
) -> OperatorLoop | None:
    """Lines as a loop; those of the purposes ``trained`` have a part of the backward pass."""
    lines = [line for line in lines if not line.only_reports]
    samples, spans = facts.timeline.looks, _time_of(lines)
    if samples is None:
        return None
    at = _samples_at(samples, spans)
    if not at.any():
        return None
    busy = samples_python(facts, samples.time[at]) | samples.unsure[at]
    nodes, step_s = facts.timeline.process.bursts.counted_s or (0, 1.0)
    step_s = min(step_s, facts.step_s * (training_cores(facts) or 1.0))  # without other programs
    larger = wilson_interval(busy, samples.weight[at])[2] < LEAST_TAKEN
    if larger and step_s > nodes * DISPATCH_S:
        return None
    inside = [line for line in lines if line.purpose in trained]
    model = [line for line in facts.lines if line.purpose in MODEL or line in inside]
    return OperatorLoop(
        lines=lines,
        spans=spans,
        part=sum(line.time for line in inside) / max(sum(line.time for line in model), 1),
        taken=float(np.average(busy, weights=samples.weight[at])),
        looks=int(at.sum()),
        layer=lines[0].layer,
    )


def _calls_operators(facts: Facts, lines: list[StepLine]) -> bool:
    """Whether some samples there surely find the lock of the interpreter free, as operators leave
    it, and the thread at work."""
    samples, spans = facts.timeline.looks, _time_of(lines) & facts.time_of("compute", "python")
    if samples is None or not lines:
        return False
    at = _samples_at(samples, spans)
    taken = samples.unsure[at] | samples_python(facts, samples.time[at])
    return bool(at.any()) and wilson_interval(~taken, samples.weight[at])[0] >= LEAST_FREE


def _time_of(lines: list[StepLine]) -> Intervals:
    spans = EMPTY
    for line in lines:
        spans = spans | line.sampled_time
    return spans


def _samples_at(samples: StackSampleWeights, spans: Intervals) -> Mask:
    return spans.contains_times(samples.time) & (samples.weight > 0) & samples.own


def samples_python(facts: Facts, moments: I64) -> Mask:
    """Return whether the stack sample at each moment counts as Python."""
    host = facts.timeline.host
    known = (host.detail >= 0) & is_among(host.kind, (HostKind.OP, HostKind.PYTHON))
    rows = np.flatnonzero(known & is_among(host.thread, facts.host.drivers))
    if not len(rows):
        return np.zeros(len(moments), dtype=bool)
    at = rows[np.maximum(np.searchsorted(host.start[rows], moments, side="right") - 1, 0)]
    inside = (host.start[at] <= moments) & (host.end[at] > moments)
    return inside & (host.kind[at] == HostKind.PYTHON)
