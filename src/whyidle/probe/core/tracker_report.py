"""Reports the experiment trackers that the job itself has opened, if the user asked for it.

Only modules that the job has imported are looked at; nothing is imported, opened or logged here.
MLflow keeps its active run per thread, so it is read on the training thread, at the rare looks.
TensorBoard's writers know their folder only themselves, so their making is noted.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from .events import Events
from .import_hooks import call_after_import
from .listener import Listener

VARIABLE = "WHYIDLE_TRACK"
WRITERS = ("tensorboard.summary.writer.event_file_writer", "tensorboardX.event_file_writer")
"""modules of TensorBoard's class ``EventFileWriter``, which PyTorch and trainers use"""


class TrackerReport(Listener):
    """Writes ``PID.trackers.json`` whenever a tracker has been opened."""

    listener = "trackers"

    def __init__(self, events: Events) -> None:
        self.events = events
        self.reported: dict[str, dict[str, str]] = {}
        self.folder = ""
        self.waiting: list[Callable[[], object]] = []
        for name in WRITERS:
            self.waiting.append(call_after_import(name, "EventFileWriter", self._note_folder))

    def _note_folder(self, module: Any) -> None:
        writer = module.EventFileWriter
        original = writer.__init__

        @functools.wraps(original)
        def make_writer(made: Any, logdir: Any, *args: Any, **kwargs: Any) -> None:
            original(made, logdir, *args, **kwargs)
            self.folder = self.folder or os.path.abspath(str(logdir))

        writer.__init__ = make_writer
        self.waiting.append(lambda: setattr(writer, "__init__", original))

    def stop_listening(self) -> None:
        """Leave TensorBoard as it was."""
        while self.waiting:
            self.waiting.pop()()

    def on_training_begin(self, optimizer: Any) -> None:
        """Look for the first time."""
        self.on_look()

    def on_look(self) -> None:
        """Look again: a run may be opened after the first step."""
        found = find_trackers()
        if self.folder:
            found["tensorboard"] = {"log_dir": self.folder}
        if found == self.reported:
            return
        self.reported = found
        path = os.path.join(self.events.recorder.folder, f"{os.getpid()}.trackers.json")
        with open(f"{path}~", "w", encoding="utf-8") as file:
            json.dump(found, file)
        os.replace(f"{path}~", path)


def find_trackers() -> dict[str, dict[str, str]]:
    """The facts of each tracker with an open run, by its name."""
    found: dict[str, dict[str, str]] = {}
    mlflow: Any = sys.modules.get("mlflow")
    run = mlflow.active_run() if hasattr(mlflow, "active_run") else None
    if run is not None:
        found["mlflow"] = {"run_id": run.info.run_id, "tracking_uri": mlflow.get_tracking_uri()}
    comet: Any = sys.modules.get("comet_ml")
    running = getattr(comet, "get_running_experiment", lambda: None)()
    if running is not None:
        offline = "1" if "Offline" in type(running).__name__ else ""
        found["comet"] = {"key": running.get_key(), "offline": offline}
    return found


def install_tracker_report(events: Events) -> None:
    """Look for trackers if ``whyidle run --track`` asked for it."""
    if os.environ.get(VARIABLE):
        events.add_listener(TrackerReport(events))
