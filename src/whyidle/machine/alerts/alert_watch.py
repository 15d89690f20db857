"""Evaluates alerts beside a watch, and hands them to routes."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from whyidle.machine.alerts.delivery import Delivering, SentNotice
from whyidle.machine.alerts.evaluation import ActiveAlert, Evaluator, Firing
from whyidle.machine.alerts.rule_file import AlertSettings
from whyidle.model.live.alert import Delivery

if TYPE_CHECKING:
    from whyidle.model.documents.watch_document import WatchedMachine
    from whyidle.model.live.metric_series import Metric

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
    """The alerts of one watch. ``keeper`` names the file beside ``mutes`` in which the state lasts;
    None: it does not."""

    def __init__(
        self,
        settings: AlertSettings,
        mutes: Path,
        routes: Sequence[Outlet],
        *,
        keeper: str | None = None,
    ) -> None:
        self._settings, self._mutes, self._routes = settings, mutes, routes
        self._evaluator = Evaluator(settings.active_rules(), settings.interval_s)
        self._delivering = Delivering(settings, self._explain)
        self._machine: WatchedMachine | None = None
        self._kept: Path | None = None
        if keeper is not None:
            # a store may be shared by several machines
            self._kept = mutes.with_name(f"alerts-{keeper}-{platform.node()}.json")
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
        if self._kept is not None:
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
