"""whyidle: why is my GPU idle, or busy for nothing, and how do I fix it?

``explain`` diagnoses recorded traces, ``watch`` the current process, ``load`` reads a stored run,
``compare`` compares two or more, ``step`` marks the end of a training step, and ``report`` gives a
metric to ``whyidle tune``. Nothing else is public.
Names are imported on first use, so that ``import whyidle`` is cheap.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from whyidle.version import __version__

if TYPE_CHECKING:
    from whyidle.api.documents import Comparison, Diagnosis, RunTable
    from whyidle.api.explanation import compare, explain, load
    from whyidle.api.metric_report import report
    from whyidle.api.own_process import Watch, watch

__all__ = [
    "Comparison",
    "Diagnosis",
    "RunTable",
    "Watch",
    "__version__",
    "compare",
    "explain",
    "load",
    "report",
    "step",
    "watch",
]

_MODULES = {
    "Comparison": "whyidle.api.documents",
    "Diagnosis": "whyidle.api.documents",
    "RunTable": "whyidle.api.documents",
    "Watch": "whyidle.api.own_process",
    "compare": "whyidle.api.explanation",
    "explain": "whyidle.api.explanation",
    "load": "whyidle.api.explanation",
    "report": "whyidle.api.metric_report",
    "watch": "whyidle.api.own_process",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'whyidle' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def step() -> None:
    """Mark the end of a training step in a loop without an optimizer.

    Does nothing in a process that is not watched.
    """
    probe = sys.modules.get("_whyidle_probe")
    if probe is not None:
        probe.step()
