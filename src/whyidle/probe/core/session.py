"""The recording of one process: the core's parts and a framework's adapter put together."""

from __future__ import annotations

import atexit
import multiprocessing
import threading

from . import bursts, collector_pauses, containment, process_exit, step_limits, tracebacks
from .adapter import Adapter
from .events import Events
from .recorder import Recorder


class Session:
    """``events`` is what hooks report to."""

    def __init__(self, folder: str, adapter: Adapter) -> None:
        self.events = events = Events(Recorder(folder), adapter)
        adapter.install(events)
        collector_pauses.install_collector_hook(events)
        self.bursts = bursts.install_bursts(events, adapter.op_profiler)
        if self.bursts is not None:
            adapter.watch_profilers(events, self.bursts.forbid_bursts)
        step_limits.install_step_limits(events)
        tracebacks.install_cleaner(events)
        process_exit.install_exit_hooks(events)
        main = threading.current_thread() is threading.main_thread()
        if multiprocessing.parent_process() is None and main:
            events.watch_thread()
        atexit.register(events.finish_recording)
        adapter.hide(folder)

    def is_burst_awaited(self) -> bool:
        """Whether operators are still to be recorded for the first time."""
        return self.bursts is not None and self.bursts.is_first_awaited

    def mark_step(self) -> None:
        """The user says that a step ends here."""
        self.events.run_contained("step", self.events.step_marked)

    def uninstall(self) -> None:
        """End the recording and take every hook off; the process goes on."""
        events = self.events
        atexit.unregister(events.finish_recording)
        events.finish_recording(dying=False)
        while events.undo:
            containment.run_contained(events.recorder.folder, *events.undo.popitem())
