"""Evaluates alerts beside a watch, and hands them to routes.

A notice is sent when an alert begins to fire, again every ``repeat_s``, and when it resolves.
Beyond ``most_per_hour`` notices are held back, and one message says how many.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from whyidle.machine.alerts.evaluation import IDENTITY, Evaluator, Firing
from whyidle.model.live.alert import Delivery, Notice

if TYPE_CHECKING:
    from whyidle.machine.alerts.rule_file import AlertSettings
    from whyidle.model.documents.watch_document import WatchedMachine
    from whyidle.model.live.metric_series import Metric

Explain = Callable[[Firing], tuple[str, str]]
"""of a firing alert: its cause, and its first fix; empty where unknown"""


@dataclass(slots=True)
class _SentNotice:
    notice: Notice
    last: float  # when a notice was sent the last time


class Delivering:
    """The notices of one machine."""

    def __init__(self, settings: AlertSettings, explain: Explain) -> None:
        self._settings, self._explain = settings, explain
        self._notified: dict[str, _SentNotice] = {}
        self._sent: deque[float] = deque()
        self._held_back = 0

    def deliver(self, firing: Sequence[Firing], when: float) -> Delivery:
        """The notices to send now."""
        current = {alert_key(one): self._make_notice(one, when) for one in firing}
        notices = self._limit(
            [*self._due(current, when), *self._resolved_notices(current, when)], when
        )
        held, self._held_back = (self._held_back, 0) if notices else (0, self._held_back)
        return Delivery(notices=notices, held_back=held)

    def _make_notice(self, firing: Firing, when: float) -> Notice:
        key, (cause, fix) = alert_key(firing), self._explain(firing)
        return Notice(
            key=key, rule=firing.rule, event="repeats" if key in self._notified else "fires",
            labels=firing.labels, value=firing.value, since=firing.since, when=when, cause=cause,
            fix=fix,
        )  # fmt: skip

    def _due(self, current: Mapping[str, Notice], when: float) -> list[Notice]:
        due = []
        for key, notice in current.items():
            sent = self._notified.get(key)
            if sent is None or when - sent.last >= self._settings.repeat_s:
                self._notified[key] = _SentNotice(notice, when)
                due.append(notice)
        return due

    def _resolved_notices(self, current: Mapping[str, Notice], when: float) -> list[Notice]:
        gone = [key for key in self._notified if key not in current]
        notices = [self._notified.pop(key).notice for key in gone]
        return [replace(one, event="resolves", when=when) for one in notices]

    def _limit(self, due: list[Notice], when: float) -> list[Notice]:
        while self._sent and self._sent[0] <= when - 3600.0:
            self._sent.popleft()
        room = max(0, self._settings.most_per_hour - len(self._sent))
        order = {"critical": 0, "warning": 1, "info": 2}
        due = sorted(due, key=lambda one: order[one.rule.severity])
        self._held_back += len(due) - len(due[:room])
        self._sent.extend([when] * len(due[:room]))
        return due[:room]


def alert_key(firing: Firing) -> str:
    """The identity of an alert: rule, and the run or GPU with its host."""
    names = IDENTITY[firing.rule.of]
    return "/".join([firing.rule.id, *(firing.labels.get(name, "") for name in names)])


class Outlet(Protocol):
    """A route behind a queue."""

    def enqueue(self, *arguments: object) -> None:
        """Queue a delivery; never waits."""

    def close(self, diagnosis: None) -> None:
        """Deliver what is queued."""


class AlertWatch:
    """The alerts of one watch."""

    def __init__(self, settings: AlertSettings, routes: Sequence[Outlet]) -> None:
        self._settings, self._routes = settings, routes
        self._evaluator = Evaluator(settings.active_rules(), settings.interval_s)
        self._delivering = Delivering(settings, self._explain)
        self._machine: WatchedMachine | None = None
        self._due_s = 0.0

    def add_look(self, machine: WatchedMachine, metrics: Sequence[Metric]) -> None:
        """Evaluate the rules, once in ``interval_s``, and deliver what they say."""
        now = time.monotonic()
        if now < self._due_s:
            return
        self._due_s = now + self._settings.interval_s - 0.5  # looks are never quite punctual
        self._machine, when = machine, time.time()
        self._evaluator.add_samples(when, metrics)
        delivery = self._delivering.deliver(self._evaluator.evaluate(when), when)
        for route in self._routes if delivery.notices else ():
            route.enqueue(delivery)

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
