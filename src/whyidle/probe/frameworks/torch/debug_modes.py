"""Records which line switches a debugging mode on, and whether modes stay on.

The first line that switches a mode on is recorded with its stack. Modes that only the training
thread can see (a tracer, a profiler) are checked after its first step, and again after a few more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from ...core.events import Events
from ...core.listener import Listener
from ...core.sampler import describe_stack
from ...core.thread_stacks import enclosing_frames
from ...core.wrapped_functions import Wrap

_HEARS = ("set_detect_anomaly.__init__", "detect_anomaly.__enter__")
"""hooks of anomaly mode"""
_COMPILER = "torch._"
"""private modules of PyTorch switch anomaly mode on briefly while they trace a graph"""


class DebugModes(Listener):
    """The debugging modes of one process. ``requested``: mode -> the stack of the first line that
    switched it on; replaced at each change, as other threads read it."""

    listener = "debugging modes"

    def __init__(self, events: Events) -> None:
        self.events = events
        self.requested: dict[str, str] = {}

    def install_hooks(self, autograd: Any) -> None:
        """Wrap the functions that switch modes on."""
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
        """Whether the job switched anomaly mode on, or may have, as a hook was removed."""
        hooks = self.events.undo
        return "anomaly_mode" in self.requested or any(where not in hooks for where in _HEARS)

    def on_look(self) -> None:
        """Count how often each mode of this thread was on, and the number of checks."""
        facts = self.events.recorder.facts
        if not facts:
            return
        before = facts.get("own", {})
        on = {mode: before.get(mode, 0) + 1 for mode, value in thread_modes().items() if value}
        facts["own"] = {**before, **on, "looks": before.get("looks", 0) + 1}
        facts["asked"] = self.requested


def thread_modes() -> dict[str, bool]:
    """Return which modes of the calling thread are on."""
    import torch

    profiler = getattr(torch.autograd, "_profiler_enabled", None)
    return {
        "tracing": sys.gettrace() is not None,
        "profiling": sys.getprofile() is not None,
        "torch_profiler": bool(profiler and profiler()),
    }


def install_debug_modes(events: Events) -> DebugModes:
    """Record which lines switch modes on, and check the training thread's own modes."""
    from torch import autograd

    modes = DebugModes(events)
    modes.install_hooks(autograd)
    events.add_listener(modes)
    return modes
