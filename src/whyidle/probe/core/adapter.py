"""What one framework brings to the probe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..wire import ProcessFacts
from .events import Events
from .hook_registry import Framework
from .op_profiler import OpProfiler
from .trial_state import TrialState


class Adapter(Framework, Protocol):
    """Installs the hooks of one framework and answers the core's questions about it. A further
    framework is a folder next to ``frameworks/torch`` whose module ``adapter`` has such a class."""

    name: str
    """the folder of the adapter"""
    packages: tuple[str, ...]
    """the packages whose classes are the framework's own"""

    def install(self, events: Events) -> None:
        """Install hooks that report to ``events``; ``events.undo`` removes them."""

    def hide(self, folder: str) -> None:
        """Exclude the probe's functions from the framework's compiler, once all are loaded. Faults
        are written to ``folder``."""

    def op_profiler(self, facts: ProcessFacts) -> OpProfiler:
        """Return the profiler that records every operator. ``facts`` describe the process."""

    def watch_profilers(self, events: Events, forbid: Callable[[str], None]) -> None:
        """Call ``forbid`` with a reason before the job uses its own profiler."""

    def trial_state(self) -> TrialState:
        """Return what a trial's witness reads."""

    def install_trial(self, events: Events, awaited: Callable[[], bool]) -> None:
        """Watch the process for a trial; ``awaited`` says whether a recording of operators must
        still precede its end."""
