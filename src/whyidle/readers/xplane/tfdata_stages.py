"""The stages of a tf.data pipeline in a profile: which of them is slow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from whyidle.model.timeline import InputStage
from whyidle.readers.xplane.xspace import Line, Plane, Stat

_STAGE: Final = re.compile(r"^Iterator::Root(?:::\w+)*$")
_THREAD: Final = re.compile(r"^tf_data_")
_FUNCTION: Final = re.compile(r":(PyFunc|EagerPyFunc|\w*Decode\w*|\w*Resize\w*|\w*Read\w*)$")
_MOST_OF_IT: Final = 0.5
"""an inner stage that takes this much of the outermost one's time is what that waits for"""
_PARALLEL: Final = ("parallelism", "num_parallel_calls", "cycle_length")


class _Stage(NamedTuple):
    path: str
    mean_ns: float
    stats: Mapping[str, Stat]


def find_slowest_stage(plane: Plane) -> InputStage | None:
    """The innermost stage that takes most of the time of a batch, and its function; None if the
    profile has no pipeline."""
    stages = [
        _Stage(
            name, _mean_ns(line, number), plane.event_stats(line.spans[_first_row(line, number)])
        )
        for line in plane.lines
        for number in np.unique(line.metadata).tolist()
        if _STAGE.match(name := plane.event_name(number))
    ]
    longest = max((stage.mean_ns for stage in stages), default=0.0)
    slow = [stage for stage in stages if stage.mean_ns >= _MOST_OF_IT * longest > 0]
    if not slow:
        return None
    stage = max(slow, key=lambda one: one.path.count("::"))
    calls = next((stage.stats[key] for key in _PARALLEL if key in stage.stats), None)
    function, function_s = _slowest_function(plane)
    return InputStage(
        name=stage.path.rpartition("::")[2],
        seconds=stage.mean_ns / 1e9,
        parallel=calls if isinstance(calls, int) else None,
        function=function,
        function_s=function_s,
    )


def _slowest_function(plane: Plane) -> tuple[str, float]:
    """The operator of the pipeline's functions that takes most of the time, if it is known to read,
    to decode or to run Python, and the seconds of a call."""
    totals: dict[str, tuple[float, float]] = {}
    for line in plane.lines:
        if not _THREAD.match(line.name):
            continue
        for number in np.unique(line.metadata).tolist():
            match = _FUNCTION.search(plane.event_name(number))
            if match:
                spent = float(np.maximum(line.length_ps[line.metadata == number], 0).sum())
                total, _ = totals.get(match[1], (0.0, 0.0))
                totals[match[1]] = total + spent, _mean_ns(line, number)
    if not totals:
        return "", 0.0
    name, (_, mean) = max(totals.items(), key=lambda item: item[1][0])
    return name, mean / 1e9


def _mean_ns(line: Line, number: int) -> float:
    lengths = line.length_ps[(line.metadata == number) & (line.length_ps >= 0)]
    return float(lengths.mean()) / 1e3 if len(lengths) else 0.0


def _first_row(line: Line, number: int) -> int:
    return int(np.argmax(line.metadata == number))
