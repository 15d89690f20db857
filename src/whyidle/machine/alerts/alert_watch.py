"""Evaluates alerts beside a watch, and hands them to routes.

Decides which notices firing alerts send, and when.

A notice is sent when an alert begins to fire, again every ``repeat_s``, and when it resolves. In
quiet hours and while it is muted nothing is sent; what still fires afterwards is sent then, and
what came and went is not. Beyond ``most_per_hour`` notices are held back, and one message says how
many.
"""

from __future__ import annotations

import json
import platform
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from whyidle.machine.alerts.evaluation import IDENTITY, ActiveAlert, Evaluator, Firing
from whyidle.machine.alerts.rule_file import DAYS, AlertSettings, QuietHours
from whyidle.model.live.alert import Delivery, Notice

if TYPE_CHECKING:
    from whyidle.model.documents.watch_document import WatchedMachine
    from whyidle.model.live.metric_series import Metric

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
        while self.sent and self.sent[0] <= when - 3600.0:
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


MUTES: Final = "mutes.json"
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


class Outlet(Protocol):
    """A route behind a queue."""

    def enqueue(self, *arguments: object) -> None:
        """Queue a delivery; never waits."""

    def close(self, diagnosis: None) -> None:
        """Deliver what is queued."""


class AlertWatch:
    """The alerts of one watch, whose state lasts in a file beside ``mutes``."""

    def __init__(self, settings: AlertSettings, mutes: Path, routes: Sequence[Outlet]) -> None:
        self._settings, self._mutes, self._routes = settings, mutes, routes
        self._evaluator = Evaluator(settings.active_rules(), settings.interval_s)
        self._delivering = Delivering(settings, self._explain)
        self._machine: WatchedMachine | None = None
        # a store may be shared by several machines
        self._kept = mutes.with_name(f"alerts-watch-{platform.node()}.json")
        when = time.time()
        state = read_state(self._kept, when)
        self._evaluator.restore(state.active, when)
        self._delivering.restore(state.notified, state.sent)
        self._due_s = 0.0

    def add_look(self, machine: WatchedMachine, metrics: Sequence[Metric]) -> Delivery | None:
        """Evaluate the rules, once in ``interval_s``; return what was delivered."""
        now = time.monotonic()
        if now < self._due_s:
            return None
        self._due_s = now + self._settings.interval_s - 0.5  # looks are never quite punctual
        self._machine, when = machine, time.time()
        self._evaluator.add_samples(when, metrics)
        self._delivering.mutes = read_mutes(self._mutes)
        delivery = self._delivering.deliver(self._evaluator.evaluate(when), when)
        for route in self._routes if delivery.notices else ():
            route.enqueue(delivery)
        write_state(self._kept, self._make_state(when))
        return delivery

    def _make_state(self, when: float) -> AlertState:
        told = self._delivering
        return AlertState(
            time=when, active=self._evaluator.list_active(), notified=told.notified,
            sent=[*told.sent],
        )  # fmt: skip

    def _explain(self, firing: Firing) -> tuple[str, str]:
        """The cause that the look shows for a GPU or run, and its first fix."""
        if self._machine is None:
            return "", ""
        labels = firing.labels
        for job in self._machine.jobs:
            if job.reason and job.steps and job.steps.run == labels.get("run"):
                return job.reason.text, job.reason.fix or job.reason.proof or ""
        uuid = labels.get("UUID")
        for gpu in self._machine.gpus if uuid else []:
            if gpu.reason and uuid in (gpu.uuid, gpu.card):
                return gpu.reason.text, gpu.reason.fix or gpu.reason.proof or ""
        return "", ""

    def close(self) -> None:
        """Deliver what is queued."""
        for route in self._routes:
            route.close(None)


def read_mutes(path: Path) -> dict[str, float]:
    """Muted keys and rules, and when each mute ends; empty where there are none."""
    try:
        mutes: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    now = time.time()
    return {name: end for name, end in mutes.items() if end > now}
