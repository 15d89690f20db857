"""Shows the counters to other processes while the job runs, as a driver does.

``WHYIDLE_EMULATED_COUNTERS`` names a folder; each process that uses the device keeps ``PID.json``
in it, replaced ten times a second; one that is not absolute lies in the recording.
``emulator.source`` reads it.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
from pathlib import Path

from emulator.device import devices
from emulator.device.clock import now
from emulator.device.counters import Counters

VARIABLE = "WHYIDLE_EMULATED_COUNTERS"
SCHEMA = "whyidle/emulated-counters/1"
PERIOD_S = 0.1


class Publisher:
    """One process's file, kept by a thread that sleeps."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"{os.getpid()}.json"
        self.pid = os.getpid()
        self.counters: list[Counters] = []
        self.lock = threading.Lock()

    def publish(self) -> None:
        """Write the present state, whole or not at all."""
        with self.lock:
            for each in devices.started()[len(self.counters) :]:
                self.counters.append(Counters(each))
            moment = now()
            told = {
                "schema": SCHEMA,
                "pid": self.pid,
                "clock_ns": moment,
                "count": devices.config.devices,
                "devices": [each.look(moment) for each in self.counters],
            }
            draft = self.path.with_suffix(".draft")
            draft.write_text(json.dumps(told), encoding="utf-8")
            draft.replace(self.path)

    def run(self) -> None:
        """Until the process ends, or the folder is gone."""
        try:
            while True:
                if devices.started():
                    self.publish()
                time.sleep(PERIOD_S)
        except OSError:
            return

    def end(self) -> None:
        """The last state; the process is gone after it."""
        if devices.started() and os.getpid() == self.pid:
            self.path.unlink(missing_ok=True)


def install() -> None:
    """Begin to show, where a folder is named."""
    named = os.environ.get(VARIABLE)
    if not named:
        return
    folder = Path(os.environ.get("WHYIDLE_RUN", ""), named)
    folder.mkdir(parents=True, exist_ok=True)
    publisher = Publisher(folder)
    atexit.register(publisher.end)
    threading.Thread(target=publisher.run, name="emulated-counters", daemon=True).start()
