"""Records which line switches a debugging mode on, and whether modes stay on.

The first line that switches a mode on is recorded with its stack. Modes that only the training
thread can see (a tracer, a profiler) are checked after its first step, and again after a few more.
"""

from __future__ import annotations

import re
import sys
import tracemalloc
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

from ...core.events import Events
from ...core.listener import Listener
from ...core.sampler import describe_stack
from ...core.thread_stacks import enclosing_frames
from ...core.wrapped_functions import Wrap

_HEARS = ("set_detect_anomaly.__init__", "detect_anomaly.__enter__")
"""hooks of anomaly mode"""
_NARROW = {
    "torch.bfloat16": r"\b(avx512_bf16|amx_bf16|bf16)\b",
    "torch.float16": r"\b(avx512_fp16|amx_fp16|asimdhp)\b",
}
"""type of 16 bits -> flags of processors that multiply it"""
_COMPILER = "torch._"
"""private modules of PyTorch switch anomaly mode on briefly while they trace a graph"""


class DebugModes(Listener):
    """The debugging modes of one process. ``requested``: mode -> the stack of the first line that
    switched it on; replaced at each change, as other threads read it."""

    listener = "debugging modes"

    def __init__(self, events: Events) -> None:
        self.events = events
        self.requested: dict[str, str] = {}
        self.narrowed = 0
        """how often autocast began since the last look, to a type that this processor lacks"""

    def install_hooks(self, autograd: Any) -> None:
        """Wrap the functions that switch modes on."""
        asks = [
            ("anomaly_mode", "__init__", getattr(autograd, "set_detect_anomaly", None)),
            ("anomaly_mode", "__enter__", getattr(autograd, "detect_anomaly", None)),
            ("torch_profiler", "__enter__", getattr(autograd.profiler, "profile", None)),
            ("torch_profiler", "__enter__", getattr(autograd.profiler, "emit_nvtx", None)),
            ("tracemalloc", "start", tracemalloc),
            ("narrow_cpu", "__enter__", getattr(sys.modules.get("torch"), "autocast", None)),
        ]
        for mode, name, kind in asks:
            if kind is not None:
                where = f"{kind.__name__}.{name}"
                self.events.patch_function(where, kind, name, self._wrap_switch(where, mode))

    def _wrap_switch(self, where: str, mode: str) -> Wrap:
        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                if mode == "narrow_cpu":
                    on = _lacks_type(args[0])
                    self.narrowed += on
                else:
                    on = args[1] if len(args) > 1 else kwargs.get("mode", True)
                if mode not in self.requested:
                    self.events.run_contained(
                        where, self._note_request, mode, bool(on), sys._getframe(1)
                    )
                return original(*args, **kwargs)

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
        modes = {**thread_modes(), "narrow_cpu": self.narrowed > 0}
        on = {mode: before.get(mode, 0) + 1 for mode, value in modes.items() if value}
        self.narrowed = 0
        facts["own"] = {**before, **on, "looks": before.get("looks", 0) + 1}
        facts["asked"] = self.requested


@lru_cache
def _read_processor() -> str:
    """The flags of the processor; "" where the system does not tell."""
    path = Path("/proc/cpuinfo")
    text = path.read_text("utf-8", "replace") if path.exists() else ""
    found = re.search(r"^(flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return found[2] if found else ""


def _lacks_type(autocast: Any) -> bool:
    """Whether an autocast on the CPU is to a type that the processor does not multiply."""
    if getattr(autocast, "device", "") != "cpu" or not getattr(autocast, "_enabled", False):
        return False
    flags = _NARROW.get(str(getattr(autocast, "fast_dtype", "")))
    return bool(flags and (have := _read_processor()) and not re.search(flags, have))


def thread_modes() -> dict[str, bool]:
    """Return which modes of the calling thread are on."""
    import torch

    profiler = getattr(torch.autograd, "_profiler_enabled", None)
    traced = tracemalloc.get_traceback_limit() if tracemalloc.is_tracing() else 0
    return {
        "tracemalloc": traced == 1,
        "tracemalloc_stacks": traced > 1,
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
