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

    def __init__(self, events: Events, tracked: dict[str, dict[str, str]]) -> None:
        self.events, self.tracked = events, tracked
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
        runs = {name: read_facts(facts) for name, facts in self.tracked.items()}
        found = {name: facts for name, facts in runs.items() if facts}
        if self.folder:
            found["tensorboard"] = {"log_dir": self.folder}
        if found == self.reported:
            return
        self.reported = found
        path = os.path.join(self.events.recorder.folder, f"{os.getpid()}.trackers.json")
        with open(f"{path}~", "w", encoding="utf-8") as file:
            json.dump(found, file)
        os.replace(f"{path}~", path)


def read_facts(paths: dict[str, str]) -> dict[str, str]:
    """The facts of a tracker by their paths (``PublisherModule.TRACKED``), empty without an open
    run: then a part of a path is missing or None."""
    facts = {}
    for fact, path in paths.items():
        package, *parts = path.split(".")
        value: Any = sys.modules.get(package)
        for part in parts:
            value = getattr(value, part.removesuffix("()"), None)
            value = value() if value is not None and part.endswith("()") else value
        if value is None:
            return {}
        facts[fact] = str(value)
    return facts


def install_tracker_report(events: Events) -> None:
    """Look for trackers if ``whyidle run --track`` asked for it."""
    if tracked := os.environ.get(VARIABLE):
        events.add_listener(TrackerReport(events, json.loads(tracked)))
