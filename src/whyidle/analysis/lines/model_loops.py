"""Loops inside the model, or in its loss, that make many short operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from msgspec import Struct

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import EMPTY, Intervals
from whyidle.analysis.lines.step_by_line import StepLine
from whyidle.analysis.lines.tiny_op_loops import samples_python
from whyidle.analysis.sampling.share_error import wilson_interval
from whyidle.model.purposes import Purpose

LEAST_TAKEN: Final = 1 / 3
"""least part of the samples at these lines that find the interpreter at work. Larger operators
leave its lock free; of a short one, the Python that calls it takes at least a third"""
MODEL: Final = (Purpose.FORWARD, Purpose.LOSS)


class ModelLoop(Struct, frozen=True):
    """Lines of the model inside loops that one call could replace, most time first."""

    lines: list[StepLine]
    spans: Intervals
    part: float
    """their part of the time of model and loss before the backward pass (0-1)"""
    taken: float
    """part of the samples there that find the interpreter at work"""
    looks: int


def find_model_loop(facts: Facts) -> ModelLoop | None:
    """Return the lines of loops over samples or elements, if samples there find the
    interpreter at work."""
    return _find_lines(facts, lambda line: line.loop is not None and line.purpose in MODEL)


def find_rollout(facts: Facts) -> ModelLoop | None:
    """Return the lines that ask a policy for one action at a time, and loops over what they gave,
    if most samples there find the interpreter at work."""
    if not any(line.in_rollout and line.purpose is Purpose.FORWARD for line in facts.lines):
        return None
    policy = (*MODEL, Purpose.OTHER)
    return _find_lines(
        facts,
        lambda line: line.purpose in policy and (line.in_rollout or line.loop is not None),
    )


def _find_lines(facts: Facts, choose: Callable[[StepLine], bool]) -> ModelLoop | None:
    samples = facts.timeline.looks
    lines = [line for line in facts.lines if choose(line) and not line.only_reports]
    if samples is None or not lines:
        return None
    spans = EMPTY
    for line in lines:
        spans = spans | line.sampled_time
    at = spans.contains_times(samples.time) & (samples.weight > 0) & samples.own
    if not at.any():
        return None
    busy = samples_python(facts, samples.time[at]) | samples.unsure[at]
    if wilson_interval(busy, samples.weight[at])[1] < LEAST_TAKEN:
        return None
    model = [line for line in facts.lines if line.purpose in MODEL or line in lines]
    return ModelLoop(
        lines=lines,
        spans=spans,
        part=sum(line.time for line in lines) / max(sum(line.time for line in model), 1),
        taken=float(np.average(busy, weights=samples.weight[at])),
        looks=int(at.sum()),
    )
