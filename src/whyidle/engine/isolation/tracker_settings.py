"""Experiment trackers in a trial: each writes to the scratch folder, or nothing.

The variables are the trackers' own, from their documentation. A script may override most of them
in its code; then only a closed network keeps it from publishing, and where there is none a
connection is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SILENT = {"WANDB_MODE": {"disabled", "offline", "dryrun"}, "NEPTUNE_MODE": {"debug", "disabled"}}
"""what stays where somebody has set it: he wants no tracker, or less than we would leave"""


def tracker_environment(scratch: Path, before: Mapping[str, str], network: bool) -> dict[str, str]:
    """What to set for the command; ``before`` is what is set already."""
    asked = {
        "WANDB_MODE": "offline",
        "MLFLOW_TRACKING_URI": (scratch / "mlruns").as_uri(),
        "COMET_START_ONLINE": "0",
        "COMET_AUTO_LOG_DISABLE": "true",
        "NEPTUNE_MODE": "offline",
        "CLEARML_OFFLINE_MODE": "1",
        "SWANLAB_MODE": "disabled",
    }
    if not network:  # what is in the cache is found at once, not after the last attempt to connect
        asked |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    return {
        name: value
        for name, value in asked.items()
        if before.get(name, "").lower() not in SILENT.get(name, ())
    }
