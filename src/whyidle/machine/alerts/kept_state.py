"""Keeps the state of alerts in a file, so that a watch that was killed goes on where it was."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from whyidle.machine.alerts.delivery import SentNotice
from whyidle.machine.alerts.evaluation import ActiveAlert

TOLERATED_S: Final = 3600.0
"""an older state is forgotten: what happened meanwhile is not known (Prometheus's default of
``--rules.alert.for-outage-tolerance``)"""


class AlertState(msgspec.Struct, kw_only=True):
    """What is true and what was told, at a Unix time."""

    time: float
    active: list[ActiveAlert] = []
    notified: dict[str, SentNotice] = {}
    sent: list[float] = []


def read_state(path: Path, when: float) -> AlertState:
    """The state that was kept; an empty one where there is none of the last hour."""
    try:
        state = msgspec.json.decode(path.read_bytes(), type=AlertState)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return AlertState(time=when)
    return state if 0 <= when - state.time <= TOLERATED_S else AlertState(time=when)


def write_state(path: Path, state: AlertState) -> None:
    """Keep the state. A disk that is full does not stop alerts."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        draft.write_bytes(msgspec.json.encode(state))
        draft.replace(path)
    except OSError:
        pass
