"""Profilers that a job has of its own: from the first one on it is left alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from ...core.events import Events
from ...core.patching import set_attribute

CALLS = (
    ("torch.profiler", "_KinetoProfile", "__init__"),
    ("torch.autograd.profiler", "profile", "__init__"),
    ("torch.autograd.profiler", "emit_nvtx", "__init__"),
    ("torch.autograd.profiler", "emit_itt", "__init__"),
    ("torch.autograd.profiler_legacy", "profile", "__init__"),
    ("torch.cuda", "profiler", "start"),
)
"""what a job calls to profile itself: (module, owner, name)"""
WHY = "the job uses a profiler of its own"


def watch_profilers(events: Events, forbid: Callable[[str], None]) -> None:
    """Have ``forbid`` called, before the profiler is made or started."""
    for module, owner, name in CALLS:
        found = getattr(sys.modules.get(module), owner, None)
        if hasattr(found, name):
            _wrap_constructor(events, forbid, found, name)


def _wrap_constructor(events: Events, forbid: Callable[[str], None], owner: Any, name: str) -> None:
    original = getattr(owner, name)

    @wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        events.run_contained("burst", forbid, WHY)
        return original(*args, **kwargs)

    where = f"{getattr(owner, '__module__', '')}.{owner.__name__}.{name}"
    events.undo[where] = set_attribute(owner, name, wrapper)
