"""Callbacks for training frameworks and search engines, imported on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whyidle.integrations.keras import KerasCallback
    from whyidle.integrations.lightning import LightningCallback
    from whyidle.integrations.optuna import WatchedObjective
    from whyidle.integrations.ray_tune import RayTuneCallback, watched_trainable
    from whyidle.integrations.transformers import TrainerCallback

__all__ = [
    "KerasCallback",
    "LightningCallback",
    "RayTuneCallback",
    "TrainerCallback",
    "WatchedObjective",
    "watched_trainable",
]

_MODULES = {
    "KerasCallback": "keras",
    "LightningCallback": "lightning",
    "RayTuneCallback": "ray_tune",
    "TrainerCallback": "transformers",
    "WatchedObjective": "optuna",
    "watched_trainable": "ray_tune",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'whyidle.integrations' has no attribute {name!r}")
    return getattr(importlib.import_module(f"whyidle.integrations.{_MODULES[name]}"), name)
