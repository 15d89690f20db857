"""Evaluates alerts beside a watch, and delivers them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from whyidle import catalog
from whyidle.alerts.delivery import Delivering
from whyidle.alerts.evaluation import Evaluator, Firing
from whyidle.alerts.rule_file import AlertSettings
from whyidle.engine.monitoring.publisher_queue import RETRY_S, PublisherThread
from whyidle.errors import UsageError

if TYPE_CHECKING:
    from whyidle.model.alert import Route
    from whyidle.model.metric_series import Metric
    from whyidle.model.watch_document import WatchedMachine

MUTES = "mutes.json"


class AlertWatch:
    """The alerts of one watch. ``on_stdout`` takes the place of the route to standard output, where
    that shows something else."""

    def __init__(
        self, settings: AlertSettings, mutes: Path, on_stdout: Route | None = None
    ) -> None:
        self._settings, self._mutes = settings, mutes
        self._evaluator = Evaluator(settings.active_rules(), settings.interval_s)
        self._delivering = Delivering(settings, self._explain)
        self._machine: WatchedMachine | None = None
        self._due_s = 0.0
        tables = settings.route or [{"kind": "stdout"}]
        self._routes = [open_route(table, on_stdout) for table in tables]

    def add_look(self, machine: WatchedMachine, metrics: Sequence[Metric]) -> None:
        """Evaluate the rules, once in ``interval_s``."""
        now = time.monotonic()
        if now < self._due_s:
            return
        self._due_s = now + self._settings.interval_s - 0.5  # looks are never quite punctual
        self._machine, when = machine, time.time()
        self._evaluator.add_samples(when, metrics)
        self._delivering.mutes = read_mutes(self._mutes)
        delivery = self._delivering.deliver(self._evaluator.evaluate(when), when)
        for route, gets_all in self._routes:
            if delivery.notices or gets_all:
                route.enqueue(delivery)

    def _explain(self, firing: Firing) -> tuple[str, str]:
        """The cause that the look shows for a GPU or run, and its first fix."""
        if self._machine is None:
            return "", ""
        labels = firing.labels
        for job in self._machine.jobs:
            if job.reason and job.steps and job.steps.run == labels.get("run"):
                return job.reason.text, job.reason.fix or job.reason.proof or ""
        for gpu in self._machine.gpus:
            if gpu.reason and labels.get("UUID") in (gpu.uuid, gpu.card):
                return gpu.reason.text, gpu.reason.fix or gpu.reason.proof or ""
        return "", ""

    def close(self) -> None:
        """Deliver what is queued."""
        for route, _ in self._routes:
            route.close(None)


def open_route(
    table: dict[str, object], on_stdout: Route | None = None
) -> tuple[PublisherThread, bool]:
    """Open a route behind a queue, and tell whether it gets everything that fires.

    Raises:
        UsageError: its settings are wrong.
    """
    kind = str(table.get("kind", ""))
    known = catalog.plugin_names("alerts.routes")
    if kind not in known:
        raise UsageError(f"There is no route {kind!r}.", why=f"Known: {', '.join(known)}.")
    module = catalog.plugin_module("alerts.routes", kind)
    route = module.open(table)
    if kind == "stdout" and on_stdout is not None:
        route = on_stdout

    def tell(text: str) -> None:
        print(f"whyidle: alerts by {text}", file=sys.stderr)

    gets_all = getattr(module, "RAW", False)
    retry_s = None if gets_all else RETRY_S  # of everything that fires, the next state is the news
    return PublisherThread(kind, route, module.FAULTS, tell, retry_s), gets_all


def read_mutes(path: Path) -> dict[str, float]:
    """Muted keys and rules, and when each mute ends; empty where there are none."""
    try:
        mutes: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    now = time.time()
    return {name: end for name, end in mutes.items() if end > now}
