"""Callbacks for training frameworks, imported on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whyidle.integrations.keras import KerasCallback
    from whyidle.integrations.lightning import LightningCallback
    from whyidle.integrations.transformers import TrainerCallback

__all__ = ["KerasCallback", "LightningCallback", "TrainerCallback"]

_MODULES = {
    "KerasCallback": "keras",
    "LightningCallback": "lightning",
    "TrainerCallback": "transformers",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'whyidle.integrations' has no attribute {name!r}")
    return getattr(importlib.import_module(f"whyidle.integrations.{_MODULES[name]}"), name)
