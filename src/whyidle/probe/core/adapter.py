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
    """Installs hooks of one framework, and answers what the core asks about it.

    A second framework is a folder beside ``frameworks/torch`` whose module ``adapter`` has a class
    ``Adapter`` of this form, with no arguments.
    """

    name: str
    imports: tuple[str, ...]
    """the modules whose import wakes it"""

    def install(self, events: Events) -> None:
        """Put hooks in place that report to ``events``; they come off by ``events.undo``."""

    def hide(self, folder: str) -> None:
        """Have the framework's compiler leave the probe's functions alone; once all are loaded.
        Faults are noted in ``folder``."""

    def op_profiler(self, facts: ProcessFacts) -> OpProfiler:
        """What records every operator. ``facts`` are those of the process."""

    def watch_profilers(self, events: Events, forbid: Callable[[str], None]) -> None:
        """Have ``forbid`` called with a reason before the job uses a profiler of its own."""

    def trial_state(self) -> TrialState:
        """What a trial's witness asks for."""

    def install_trial(self, events: Events, awaited: Callable[[], bool]) -> None:
        """Watch the process for a trial; ``awaited`` says whether operators are to be recorded
        before it may end."""
