"""Settings of experiment trackers in a trial: offline, or writing to the scratch folder.

The variables are from the trackers' documentation. A script may override most of them in its code;
then only the closed network prevents uploads, or the connection is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SILENT = {"WANDB_MODE": {"disabled", "offline", "dryrun"}, "NEPTUNE_MODE": {"debug", "disabled"}}
"""values of the user that are not overridden, since they are at least as strict"""


def tracker_environment(scratch: Path, before: Mapping[str, str], network: bool) -> dict[str, str]:
    """Variables to set for the command; ``before``: the current environment."""
    asked = {
        "WANDB_MODE": "offline",
        "MLFLOW_TRACKING_URI": (scratch / "mlruns").as_uri(),
        "COMET_START_ONLINE": "0",
        "COMET_AUTO_LOG_DISABLE": "true",
        "NEPTUNE_MODE": "offline",
        "CLEARML_OFFLINE_MODE": "1",
        "SWANLAB_MODE": "disabled",
    }
    if not network:  # use the cache at once, instead of after all attempts to connect
        asked |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    return {
        name: value
        for name, value in asked.items()
        if before.get(name, "").lower() not in SILENT.get(name, ())
    }
