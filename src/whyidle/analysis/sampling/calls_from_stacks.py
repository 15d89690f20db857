"""Calls of a training loop as stacks show them, where nothing recorded the calls themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from whyidle.model.roles import Role, Vocabulary

_NEXT: Final = re.compile(r": __next__$")
_STEP: Final = re.compile(r": (_?step|wrapper)$")
SEEN_TWICE: Final = 2.0
"""sampling periods that nearly every phase of a step must last for no step to be missed: of calls
that are two mean (exponential) periods long 14 % are seen by no sample"""
FEW: Final = 6
"""least steps"""
NEARLY_ALL: Final = 10  # percentile


class SeenCall(NamedTuple):
    """A call that successive samples showed. ``role``: its role in a recording."""

    begin: int
    end: int
    role: str


class FrameRoles:
    """The roles of frames in one framework; each frame is matched once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._known: dict[tuple[Role, str], bool] = {}

    def plays(self, role: Role, frame: str) -> bool:
        """Whether a frame has a role."""
        key = role, frame
        if key not in self._known:
            self._known[key] = self.vocabulary.plays(role, frame)
        return self._known[key]

    def is_on(self, role: Role, frames: Iterable[str]) -> bool:
        """Whether any frame of a stack has a role."""
        return any(self.plays(role, frame) for frame in frames)


def name_call(frames: Sequence[str], roles: FrameRoles) -> str:
    """Return the role of the outermost call of a training loop on a stack (innermost frame first);
    empty if it shows none."""
    for depth in range(len(frames) - 1, -1, -1):
        frame = frames[depth]
        if roles.plays(Role.LOADER_FRAME, frame) and _NEXT.search(frame):
            return _name_request(frames[:depth], roles)
        if roles.plays(Role.ENGINE_FRAME, frame):
            return "backward"
        if roles.plays(Role.OPTIMIZER_FRAME, frame) and _STEP.search(frame):
            return "optimizer"
    return ""


def _name_request(inside: Sequence[str], roles: FrameRoles) -> str:
    """Which kind of loader a request asks; ``batch`` where the stack does not show it."""
    for role in (Role.WORKER_WAIT_FRAME, Role.INLINE_FRAME):
        if roles.is_on(role, inside):
            return "batch_inline" if role is Role.INLINE_FRAME else "batch_from_workers"
    return "batch"


def join_calls(periods: Iterable[tuple[int, int, str]]) -> list[SeenCall]:
    """Join successive periods (begin, end, role) of the same call, those without a role left out.
    Requests whose kind is not shown are of the kind of most others."""
    rows = list(periods)
    kinds = [role for *_, role in rows if role.startswith("batch_")]
    usual = max(sorted(set(kinds)), key=kinds.count, default="batch_from_iterator")
    calls: list[SeenCall] = []
    for begin, end, named in rows:
        role = usual if named == "batch" else named
        if calls and calls[-1].role == role and calls[-1].end == begin:
            calls[-1] = calls[-1]._replace(end=end)
        elif role:
            calls.append(SeenCall(begin, end, role))
    return calls


def are_steps_seen(calls: Sequence[SeenCall], period: float) -> bool:
    """Return whether hardly a step was missed: requests for batches recur, and nearly all of them,
    and of the times between them, last for at least two sampling periods (ns)."""
    requests = [call for call in calls if call.role.startswith("batch_")]
    if len(requests) < FEW:
        return False
    lengths = np.array([call.end - call.begin for call in requests])
    begins, ends = (
        np.array(column) for column in zip(*((c.begin, c.end) for c in requests), strict=True)
    )
    between = begins[1:] - ends[:-1]
    least = min(float(np.percentile(part, NEARLY_ALL)) for part in (lengths, between))
    return least >= SEEN_TWICE * period
