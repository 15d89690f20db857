"""Which line switches a debugging mode on, and whether modes of the training thread stay on.

The first line that asks for a mode is noted, with its stack. What only the training thread sees of
itself (a tracer, a profiler) is looked at after its first step, and again after a few more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from .frames import outwards
from .sampler import describe
from .wrapping import patch

if TYPE_CHECKING:
    from .loop import Loop

LOOKS = (1, 10, 30, 100, 300, 1000, 3000, 10_000, sys.maxsize)
"""steps after which the training thread looks at itself"""
_HEARS = ("set_detect_anomaly.__init__", "detect_anomaly.__enter__")
"""hooks that hear of it"""
_COMPILER = "torch._"
"""private parts of PyTorch switch anomaly mode on for a moment: tracing a graph, for its stacks"""


def install(loop: Loop) -> None:
    """Note who switches a mode on."""
    from torch import autograd

    asks = [
        ("anomaly_mode", "__init__", getattr(autograd, "set_detect_anomaly", None)),
        ("anomaly_mode", "__enter__", getattr(autograd, "detect_anomaly", None)),
        ("torch_profiler", "__enter__", getattr(autograd.profiler, "profile", None)),
        ("torch_profiler", "__enter__", getattr(autograd.profiler, "emit_nvtx", None)),
    ]
    for mode, name, kind in asks:
        if kind is not None:
            where = f"{kind.__name__}.{name}"
            patch(loop, where, kind, name, _noting(loop, where, mode))


def _noting(
    loop: Loop, where: str, mode: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            if mode not in loop.asked:
                on = args[0] if args else kwargs.get("mode", True)
                loop.contained(where, _note, loop, mode, bool(on), sys._getframe(1))
            return original(self, *args, **kwargs)

        return wrapper

    return wrap


def asked(loop: Loop) -> bool:
    """Whether the job asked for anomaly mode; where a hook that would know has come off, it may
    have."""
    return "anomaly_mode" in loop.asked or any(where not in loop.undo for where in _HEARS)


def _note(loop: Loop, mode: str, on: bool, frame: FrameType) -> None:
    if on and not str(frame.f_globals.get("__name__")).startswith(_COMPILER):
        loop.asked = {**loop.asked, mode: describe(outwards(frame))}


def own() -> dict[str, bool]:
    """Modes of the calling thread."""
    import torch

    profiler = getattr(torch.autograd, "_profiler_enabled", None)
    return {
        "tracing": sys.gettrace() is not None,
        "profiling": sys.getprofile() is not None,
        "torch_profiler": bool(profiler and profiler()),
    }


def look(loop: Loop) -> None:
    """The training thread looks at itself: how often a mode was on, of how many looks."""
    told = loop.recorder.facts
    if not told:
        return
    before = told.get("own", {})
    on = {mode: before.get(mode, 0) + 1 for mode, value in own().items() if value}
    told["own"] = {**before, **on, "looks": before.get("looks", 0) + 1}
    told["asked"] = loop.asked
