"""Detects the job's own profilers, after which no burst is recorded."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from ...core.events import Events
from ...core.wrapped_functions import set_attribute

CALLS = (
    ("torch.profiler", "_KinetoProfile", "__init__"),
    ("torch.autograd.profiler", "profile", "__init__"),
    ("torch.autograd.profiler", "emit_nvtx", "__init__"),
    ("torch.autograd.profiler", "emit_itt", "__init__"),
    ("torch.autograd.profiler_legacy", "profile", "__init__"),
    ("torch.cuda", "profiler", "start"),
)
"""functions that a job calls to profile itself: (module, owner, name)"""
WHY = "the job uses its own profiler"


def watch_profilers(events: Events, forbid: Callable[[str], None]) -> None:
    """Call ``forbid`` before the job creates or starts a profiler."""
    for module, owner, name in CALLS:
        target = getattr(sys.modules.get(module), owner, None)
        if hasattr(target, name):
            _wrap_constructor(events, forbid, target, name)


def _wrap_constructor(events: Events, forbid: Callable[[str], None], owner: Any, name: str) -> None:
    original = getattr(owner, name)

    @wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        events.run_contained("burst", forbid, WHY)
        return original(*args, **kwargs)

    where = f"{getattr(owner, '__module__', '')}.{owner.__name__}.{name}"
    events.undo[where] = set_attribute(owner, name, wrapper)
