"""Comet: logs into the experiment that the job itself has opened, from another process.

Needs the extra ``comet`` (comet_ml) and, online, the same API key. An offline experiment is
continued as Comet's ``ExistingOfflineExperiment``, which writes an archive of its own. Joining an
online experiment has not been tried against Comet's service.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from whyidle.errors import MissingExtraError
from whyidle.machine.publishers._tracked_keys import collect_keys, summarise_diagnosis
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.documents.watch_document import WatchedMachine
from whyidle.model.live.metric_series import Metric
from whyidle.model.live.publisher import Destination, Publisher

FAULTS = (Exception,)
"""the client raises its own and those of its HTTP library"""
TRACKED = {
    "key": "comet_ml.get_running_experiment().get_key()",
    "kind": "comet_ml.get_running_experiment().__class__.__name__",
}
_QUIET: Mapping[str, bool | int] = {
    "log_code": False,
    "log_graph": False,
    "log_git_metadata": False,
    "log_git_patch": False,
    "log_env_details": False,
    "log_env_gpu": False,
    "log_env_cpu": False,
    "log_env_host": False,
    "auto_metric_logging": False,
    "auto_param_logging": False,
    "auto_output_logging": False,
    "parse_args": False,
    "display_summary_level": 0,
}
"""everything that the job's own experiment logs already"""


class _Experiment:
    def __init__(self, experiment: Any) -> None:
        self._experiment = experiment

    def publish(self, machine: WatchedMachine, metrics: Sequence[Metric]) -> None:
        """Log one look."""
        del metrics
        step, keys = collect_keys(machine)
        self._experiment.log_metrics(keys, step=step)

    def close(self, diagnosis: Diagnosis | None) -> None:
        """Log the verdict and end."""
        for key, text in (summarise_diagnosis(diagnosis) if diagnosis else {}).items():
            self._experiment.log_other(key, text)
        self._experiment.end()


def open(destination: Destination) -> Publisher:  # noqa: A001  # a publisher's verb
    """Continue the experiment ``key`` of the tracker's facts."""
    try:
        import comet_ml  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise MissingExtraError(
            "Comet is not installed in whyidle's environment.", hint="pip install 'whyidle[comet]'"
        ) from error
    facts = destination.tracker
    if "Offline" in facts["kind"]:
        return _Experiment(
            comet_ml.ExistingOfflineExperiment(
                previous_experiment=facts["key"],
                offline_directory=str(destination.folder),
                **_QUIET,
            )
        )
    return _Experiment(comet_ml.ExistingExperiment(previous_experiment=facts["key"], **_QUIET))
