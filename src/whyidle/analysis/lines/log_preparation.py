"""What is computed for a log before the logging library is called, by stack samples.

The arguments of a call are computed at its line (``writer.add_scalar("norm", p.norm())``), and a
function that only logs (``log_weights(model)``) prepares at its other lines, too. Without the log,
neither would run.
"""

from __future__ import annotations

import re

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.integer_codes import is_among
from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.model.roles import Role

_LINE = re.compile(r"\(\d+\)")
_TRAINING = (Role.TRAINING_FRAME, Role.LOADER_FRAME)
"""frames of work that is no preparation, even where a log calls for it"""


def find_log_preparation(facts: Facts) -> Intervals:
    """Return when the driving threads computed what only a log needs, without the logging itself;
    empty without stack samples."""
    timeline = facts.timeline
    if timeline.looks is None:
        return EMPTY
    host = timeline.host
    rows = np.flatnonzero((host.detail >= 0) & is_among(host.thread, facts.host.drivers))
    numbers = np.unique(host.detail[rows])
    stacks = {int(i): timeline.details[i].stack.split(";") for i in numbers}
    logs = {i: _outermost(facts, frames, (Role.LOGGING,)) for i, frames in stacks.items()}
    callers = {stacks[i][at + 1] for i, at in logs.items() if 0 <= at < len(stacks[i]) - 1}
    trained = _training_time(facts).contains_times(host.start[rows])
    training = set(host.detail[rows[trained]].tolist())
    training |= {i for i, frames in stacks.items() if _outermost(facts, frames, _TRAINING) >= 0}
    mixed = {_function_of(frame) for i in training for frame in stacks[i]}
    loggers = {_function_of(frame) for frame in callers} - mixed
    prepares = [
        i
        for i, frames in stacks.items()
        if logs[i] < 0 and i not in training
        if any(frame in callers or _function_of(frame) in loggers for frame in frames)
    ]
    rows = rows[np.isin(host.detail[rows], prepares)]
    return union_of(host.start[rows], host.end[rows]) - facts.time_of("logging")


def _training_time(facts: Facts) -> Intervals:
    host = facts.timeline.host
    roles = Role.BACKWARD, Role.OPTIMIZER_CALL, Role.LOADER
    rows = np.concatenate([facts.timeline.rows_of(role) for role in roles])
    return union_of(host.start[rows], host.end[rows])


def _outermost(facts: Facts, frames: list[str], roles: tuple[Role, ...]) -> int:
    """Index of the outermost frame with one of these roles; -1 without one."""
    plays = facts.timeline.vocabulary.plays
    found = (i for i in range(len(frames) - 1, -1, -1) if any(plays(r, frames[i]) for r in roles))
    return next(found, -1)


def _function_of(frame: str) -> str:
    return _LINE.sub("", frame, count=1)
