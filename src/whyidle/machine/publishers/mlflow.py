"""MLflow: logs into the run that the job itself has opened, from another process.

Needs the extra ``mlflow`` (mlflow-skinny). Keys begin with ``whyidle/``; the job's own rows are not
touched.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from whyidle.errors import MissingExtraError
from whyidle.machine.publishers._tracked_keys import collect_keys, summarise_diagnosis
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.documents.watch_document import WatchedMachine
from whyidle.model.live.metric_series import Metric
from whyidle.model.live.publisher import Destination, Publisher

FAULTS = (Exception,)
"""the client raises its own, those of its HTTP library and of its database"""
TRACKED = {
    "run_id": "mlflow.active_run().info.run_id",
    "tracking_uri": "mlflow.get_tracking_uri()",
}


class _Run:
    def __init__(self, client: Any, metric: Any, run_id: str) -> None:
        self._client, self._metric, self._run = client, metric, run_id

    def publish(self, machine: WatchedMachine, metrics: Sequence[Metric]) -> None:
        """Log one look."""
        del metrics
        step, keys = collect_keys(machine)
        now = int(time.time() * 1000)
        rows = [self._metric(key, value, now, step) for key, value in keys.items()]
        if rows:
            self._client.log_batch(self._run, metrics=rows)

    def close(self, diagnosis: Diagnosis | None) -> None:
        """Set tags with the verdict."""
        for key, text in (summarise_diagnosis(diagnosis) if diagnosis else {}).items():
            self._client.set_tag(self._run, key, text[:5000])


def open(destination: Destination) -> Publisher:  # noqa: A001  # a publisher's verb
    """Open the run ``run_id`` at ``tracking_uri`` of the tracker's facts."""
    try:
        from mlflow import MlflowClient  # noqa: PLC0415  # an extra
        from mlflow.entities import Metric as Row  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(
            "MLflow is not installed in whyidle's environment.",
            hint="pip install 'whyidle[mlflow]'",
        ) from error
    facts = destination.tracker
    return _Run(MlflowClient(tracking_uri=facts["tracking_uri"]), Row, facts["run_id"])
