"""Publishes one watched command while it runs: its own job and its own GPUs, nothing else."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from whyidle.engine.monitoring.job_groups import run_name
from whyidle.engine.monitoring.machine_watch import MachineWatch
from whyidle.engine.monitoring.publisher_queue import Publishing
from whyidle.errors import WhyidleError
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.publisher import Destination
from whyidle.model.watch_document import WatchedMachine

EVERY_S: Final = 5.0
"""time between looks: a Prometheus server scrapes every 15 to 60 s, trackers draw minutes"""
JOIN_S: Final = 5.0
TRACK = "WHYIDLE_TRACK"


class RunPublishing:
    """Follows one command. Use as a context while it runs, then call ``finish``."""

    def __init__(
        self,
        recording: Path,
        destinations: Mapping[str, str],
        tell: Callable[[str], object],
        *,
        track: bool = False,
        dcgm_names: bool = False,
    ) -> None:
        self._recording, self._tell, self._track = recording, tell, track
        self._publishing = Publishing(tell)
        self._untried: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run_loop, name="whyidle-publishing", daemon=True
        )
        name = f"whyidle-{run_name(recording)}"
        for kind, where in destinations.items():
            destination = Destination(
                where=where, name=name, environ=os.environ, dcgm_names=dcgm_names
            )
            self._publishing.open(kind, destination)
        self._wandb = self._publishing.open("wandb", Destination()) if track else None

    def variables(self) -> dict[str, str]:
        """Environment variables for the command."""
        if self._wandb is None:
            return {}
        return {TRACK: "1", **self._wandb.environment(os.environ)}

    def __enter__(self) -> RunPublishing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(JOIN_S)

    def _run_loop(self) -> None:
        watch = MachineWatch()
        key = f"run:{run_name(self._recording)}"
        try:
            while True:
                ended = self._stop.wait(EVERY_S)
                machine = select_job(watch.look(), key)
                if self._track:
                    self._open_trackers()
                self._publishing.publish(machine)
                if ended:
                    return
        except (WhyidleError, OSError) as error:
            self._tell(f"publishing ended: {error}")
        finally:
            watch.close()

    def _open_trackers(self) -> None:
        for name, facts in find_trackers(self._recording).items():
            if name in self._publishing or name in self._untried:
                continue
            try:
                destination = Destination(tracker=facts, folder=Path.cwd(), environ=os.environ)
                self._publishing.open(name, destination)
            except WhyidleError as error:
                self._untried.add(name)
                self._tell(f"{name}: not published: {error}")

    def finish(self, diagnosis: Diagnosis | None) -> None:
        """Publish the final diagnosis and close."""
        self._publishing.close(diagnosis)


def select_job(machine: WatchedMachine, key: str) -> WatchedMachine:
    """One job and its GPUs."""
    jobs = [job for job in machine.jobs if job.key == key]
    gpus = [gpu for gpu in machine.gpus if key in gpu.jobs]
    return msgspec.structs.replace(machine, jobs=jobs, gpus=gpus)


def find_trackers(recording: Path) -> dict[str, dict[str, str]]:
    """Trackers that the job itself has opened, as its processes reported them."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(recording.glob("*.trackers.json")):
        with suppress(OSError, ValueError):  # it is being replaced
            found |= json.loads(path.read_text(encoding="utf-8"))
    return found
