"""Which line switches a debugging mode on, and whether modes of the training thread stay on.

The first line that asks for a mode is noted, with its stack. What only the training thread sees of
itself (a tracer, a profiler) is looked at after its first step, and again after a few more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from ...core.events import Events
from ...core.listener import Listener
from ...core.patching import Wrap
from ...core.sampler import describe_stack
from ...core.thread_stacks import enclosing_frames

_HEARS = ("set_detect_anomaly.__init__", "detect_anomaly.__enter__")
"""hooks that hear of it"""
_COMPILER = "torch._"
"""private parts of PyTorch switch anomaly mode on for a moment: tracing a graph, for its stacks"""


class DebugModes(Listener):
    """Those of one process. ``requested``: mode -> the stack of the first line that asked for it;
    a new dictionary for each change, as other threads read it."""

    listener = "debugging modes"

    def __init__(self, events: Events) -> None:
        self.events = events
        self.requested: dict[str, str] = {}

    def install_hooks(self, autograd: Any) -> None:
        """Note who switches a mode on."""
        asks = [
            ("anomaly_mode", "__init__", getattr(autograd, "set_detect_anomaly", None)),
            ("anomaly_mode", "__enter__", getattr(autograd, "detect_anomaly", None)),
            ("torch_profiler", "__enter__", getattr(autograd.profiler, "profile", None)),
            ("torch_profiler", "__enter__", getattr(autograd.profiler, "emit_nvtx", None)),
        ]
        for mode, name, kind in asks:
            if kind is not None:
                where = f"{kind.__name__}.{name}"
                self.events.patch_function(where, kind, name, self._wrap_switch(where, mode))

    def _wrap_switch(self, where: str, mode: str) -> Wrap:
        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def wrapper(self_: Any, *args: Any, **kwargs: Any) -> Any:
                if mode not in self.requested:
                    on = args[0] if args else kwargs.get("mode", True)
                    self.events.run_contained(
                        where, self._note_request, mode, bool(on), sys._getframe(1)
                    )
                return original(self_, *args, **kwargs)

            return wrapper

        return wrap

    def _note_request(self, mode: str, on: bool, frame: FrameType) -> None:
        if on and not str(frame.f_globals.get("__name__")).startswith(_COMPILER):
            self.requested = {**self.requested, mode: describe_stack(enclosing_frames(frame))}

    def anomaly_requested(self) -> bool:
        """Whether the job asked for anomaly mode; where a hook that would know has come off, it may
        have."""
        hooks = self.events.undo
        return "anomaly_mode" in self.requested or any(where not in hooks for where in _HEARS)

    def on_look(self) -> None:
        """Count how often a mode of this thread was on, of how many looks."""
        told = self.events.recorder.facts
        if not told:
            return
        before = told.get("own", {})
        on = {mode: before.get(mode, 0) + 1 for mode, value in thread_modes().items() if value}
        told["own"] = {**before, **on, "looks": before.get("looks", 0) + 1}
        told["asked"] = self.requested


def thread_modes() -> dict[str, bool]:
    """Modes of the calling thread."""
    import torch

    profiler = getattr(torch.autograd, "_profiler_enabled", None)
    return {
        "tracing": sys.gettrace() is not None,
        "profiling": sys.getprofile() is not None,
        "torch_profiler": bool(profiler and profiler()),
    }


def install_debug_modes(events: Events) -> DebugModes:
    """Note who switches a mode on, and look at the training thread."""
    from torch import autograd

    modes = DebugModes(events)
    modes.install_hooks(autograd)
    events.add_listener(modes)
    return modes
