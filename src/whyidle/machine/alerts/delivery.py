"""Decides which notices firing alerts send, and when.

A notice is sent when an alert begins to fire, again every ``repeat_s``, and when it resolves. In
quiet hours and while it is muted nothing is sent; what still fires afterwards is sent then, and
what came and went is not. Beyond ``most_per_hour`` notices are held back, and one message says how
many.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from whyidle.machine.alerts.evaluation import IDENTITY, Firing
from whyidle.machine.alerts.rule_file import DAYS, AlertSettings, QuietHours
from whyidle.model.live.alert import Delivery, Notice

HOUR_S: Final = 3600.0
Explain = Callable[[Firing], tuple[str, str]]
"""of a firing alert: its cause, and its first fix; empty where unknown"""


@dataclass(slots=True)
class SentNotice:
    """A notice that was sent."""

    notice: Notice
    last: float  # when a notice was sent the last time


class Delivering:
    """The notices of one machine. ``mutes``: key or rule -> Unix time at which the mute ends."""

    def __init__(
        self, settings: AlertSettings, explain: Explain, mutes: Mapping[str, float] | None = None
    ) -> None:
        self._settings, self._explain = settings, explain
        self.mutes: Mapping[str, float] = mutes or {}
        self.notified: dict[str, SentNotice] = {}
        self.sent: deque[float] = deque()
        self._held_back = 0

    def restore(self, notified: Mapping[str, SentNotice], sent: Sequence[float]) -> None:
        """Go on with what was told before a watch was killed."""
        self.notified.update(notified)
        self.sent.extend(sent)

    def deliver(self, firing: Sequence[Firing], when: float) -> Delivery:
        """The notices to send now."""
        now = {alert_key(one): one for one in firing}
        current = {key: self._make_notice(key, one, when) for key, one in now.items()}
        quiet = is_quiet(self._settings.quiet, when)
        due = [] if quiet else [*self._due(current, when), *self._resolved_notices(current, when)]
        if quiet:  # what resolves unseen sends nothing
            self.notified = {key: sent for key, sent in self.notified.items() if key in current}
        notices = self._limit(due, when)
        held, self._held_back = (self._held_back, 0) if notices else (0, self._held_back)
        return Delivery(notices=notices, firing=[*current.values()], held_back=held)

    def _make_notice(self, key: str, firing: Firing, when: float) -> Notice:
        cause, fix = self._explain(firing)
        return Notice(
            key=key, rule=firing.rule, event="repeats" if key in self.notified else "fires",
            labels=firing.labels, value=firing.value, since=firing.since, when=when, cause=cause,
            fix=fix,
        )  # fmt: skip

    def _due(self, current: Mapping[str, Notice], when: float) -> list[Notice]:
        due = []
        for key, notice in current.items():
            sent = self.notified.get(key)
            if self._is_muted(notice, when):
                continue
            if sent is None or when - sent.last >= self._settings.repeat_s:
                self.notified[key] = SentNotice(notice, when)
                due.append(notice)
        return due

    def _resolved_notices(self, current: Mapping[str, Notice], when: float) -> list[Notice]:
        gone = [key for key in self.notified if key not in current]
        notices = [self.notified.pop(key).notice for key in gone]
        return [
            replace(one, event="resolves", when=when)
            for one in notices
            if not self._is_muted(one, when)
        ]

    def _is_muted(self, notice: Notice, when: float) -> bool:
        return any(self.mutes.get(name, 0.0) > when for name in (notice.key, notice.rule.id))

    def _limit(self, due: list[Notice], when: float) -> list[Notice]:
        while self.sent and self.sent[0] <= when - HOUR_S:
            self.sent.popleft()
        room = max(0, self._settings.most_per_hour - len(self.sent))
        order = {"critical": 0, "warning": 1, "info": 2}
        due = sorted(due, key=lambda one: order[one.rule.severity])
        self._held_back += len(due) - len(due[:room])
        self.sent.extend([when] * len(due[:room]))
        return due[:room]


def alert_key(firing: Firing) -> str:
    """The identity of an alert: rule, and the run or GPU with its host."""
    names = IDENTITY[firing.rule.of]
    return "/".join([firing.rule.id, *(firing.labels.get(name, "") for name in names)])


def is_quiet(hours: Sequence[QuietHours], when: float) -> bool:
    """Whether a moment lies in quiet hours, by local time."""
    local = time.localtime(when)
    clock = f"{local.tm_hour:02}:{local.tm_min:02}"
    today, yesterday = DAYS[local.tm_wday], DAYS[local.tm_wday - 1]
    for one in hours:
        if one.begin <= one.end:
            if today in one.days and one.begin <= clock < one.end:
                return True
        elif (today in one.days and clock >= one.begin) or (
            yesterday in one.days and clock < one.end
        ):
            return True
    return False
