"""The recording of one process: assembles the core and the adapters of its frameworks."""

from __future__ import annotations

import atexit
import multiprocessing
import threading

from . import (
    bursts,
    collector_pauses,
    data_libraries,
    fault_containment,
    process_exit,
    step_limits,
    tracebacks,
    tracker_report,
)
from .adapter import Adapter
from .events import Events
from .frameworks import Frameworks
from .recorder import Recorder


class Session:
    """One process's recording. Hooks report to ``events``."""

    def __init__(self, folder: str, adapter: Adapter) -> None:
        self.frameworks = Frameworks(adapter)
        self.events = events = Events(Recorder(folder), self.frameworks)
        adapter.install(events)
        collector_pauses.install_collector_hook(events)
        data_libraries.install_data_libraries(events)
        self.bursts = bursts.install_bursts(events, self.frameworks.op_profiler)
        if self.bursts is not None:
            adapter.watch_profilers(events, self.bursts.forbid_bursts)
        step_limits.install_step_limits(events)
        tracker_report.install_tracker_report(events)
        tracebacks.install_cleaner(events)
        process_exit.install_exit_hooks(events)
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and multiprocessing.parent_process() is None:
            events.watch_thread()
        atexit.register(events.finish_recording)
        adapter.hide(folder)

    def add_framework(self, adapter: Adapter) -> None:
        """Install the hooks of a framework that was imported after the first one."""
        self.frameworks.add(adapter)
        adapter.install(self.events)
        if self.bursts is not None:
            adapter.watch_profilers(self.events, self.bursts.forbid_bursts)
        adapter.hide(self.events.recorder.folder)

    def is_burst_awaited(self) -> bool:
        """Whether the first recording of operators is still to come."""
        return self.bursts is not None and self.bursts.is_first_awaited

    def mark_step(self) -> None:
        """Mark the end of a step, for ``whyidle.step()``."""
        self.events.run_contained("step", self.events.step_marked)

    def uninstall(self) -> None:
        """End the recording and remove every hook; the process continues."""
        events = self.events
        atexit.unregister(events.finish_recording)
        events.finish_recording(dying=False)
        while events.undo:
            fault_containment.run_contained(events.recorder.folder, *events.undo.popitem())
