"""Weights & Biases: a page that W&B's own process polls, as it does for system metrics.

``whyidle run --track`` names the page in ``WANDB_X_STATS_OPEN_METRICS_ENDPOINTS`` before the job
starts. So whyidle needs neither the package nor an account, and cannot disturb the step axis of the
job's rows. W&B numbers the series of a page, so this one has few, and always the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from whyidle.machine.publishers import prometheus
from whyidle.model.buckets import BUCKETS
from whyidle.model.documents.watch_document import WatchedMachine
from whyidle.model.live.metric_series import Metric
from whyidle.model.live.publisher import Destination

FAULTS = (OSError,)
VARIABLE = "WANDB_X_STATS_OPEN_METRICS_ENDPOINTS"


class FewSeries(prometheus.Page):
    """The page of one job; ``environment`` announces it."""

    def publish(self, machine: WatchedMachine, metrics: Sequence[Metric]) -> None:
        """Show the shares of the step by place, and the number of steps."""
        del metrics
        steps = next((job.steps for job in machine.jobs if job.steps), None)
        shares = (steps.shares if steps else None) or {}
        few = [
            Metric("whyidle_step_share_ratio", "gauge", "Share of the step by place.",
                   [({"place": place}, shares.get(place, 0.0)) for place in BUCKETS]),
            Metric("whyidle_steps_total", "counter", "Optimizer steps.",
                   [({}, float(steps.count if steps else 0))]),
        ]  # fmt: skip
        super().publish(machine, few)

    def environment(self, before: Mapping[str, str]) -> dict[str, str]:
        """The variable that announces the page, added to what the user has set."""
        try:
            known = json.loads(before.get(VARIABLE, "") or "{}")
        except ValueError:
            return {}  # not ours to repair
        if not isinstance(known, dict):
            return {}
        page = f"http://127.0.0.1:{self.port}/metrics"
        return {VARIABLE: json.dumps({**known, "whyidle": page})}


def open(destination: Destination) -> FewSeries:  # noqa: A001  # a publisher's verb
    """Listen at a free port of this machine alone."""
    del destination
    return FewSeries("127.0.0.1", 0, "")
