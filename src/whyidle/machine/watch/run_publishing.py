"""Publishes one watched command while it runs: its own job and its own GPUs, nothing else."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from whyidle import catalog
from whyidle.errors import WhyidleError
from whyidle.machine.watch.job_groups import run_name
from whyidle.machine.watch.machine_watch import MachineWatch
from whyidle.machine.watch.publisher_queue import Publishing
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.documents.watch_document import WatchedMachine
from whyidle.model.live.publisher import Destination

if TYPE_CHECKING:
    from whyidle.record.live_state import LiveWatch

TRACK = "WHYIDLE_TRACK"


class RunPublishing:
    """Follows one command. Use ``start`` as a context while it runs, then call ``finish``.
    ``follow`` makes the state of the recording that the live view and watches share."""

    def __init__(
        self,
        recording: Path,
        follow: Callable[[], LiveWatch],
        prometheus: str | None,
        tell: Callable[[str], object],
        *,
        track: bool = False,
    ) -> None:
        self._recording, self._follow, self._tell = recording, follow, tell
        self._track = track
        self._publishing = Publishing(tell)
        self._untried: set[str] = set()
        if prometheus is not None:
            self._publishing.open("prometheus", Destination(where=prometheus, environ=os.environ))
        self._wandb = self._publishing.open("wandb", Destination()) if track else None

    def variables(self) -> dict[str, str]:
        """Environment variables for the command."""
        if self._wandb is None:
            return {}
        modules = catalog.load_publishers().items()
        tracked = {name: getattr(module, "TRACKED", {}) for name, module in modules}
        return {TRACK: json.dumps(tracked), **self._wandb.environment(os.environ)}

    @contextmanager
    def start(self, pid: int) -> Iterator[None]:
        """Publish the command whose first process is ``pid`` until the context ends."""
        stop = threading.Event()
        thread = threading.Thread(
            target=self._run_loop, args=(pid, stop), name="whyidle-publishing", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(5.0)

    def _run_loop(self, pid: int, stop: threading.Event) -> None:
        from whyidle.machine.watch.recorded_job import RecordedJob  # noqa: PLC0415  # numpy

        watch = MachineWatch(job=(pid, RecordedJob(self._recording, self._follow()).look))
        key = f"run:{run_name(self._recording)}"
        try:
            while True:
                # a Prometheus server scrapes every 15 to 60 s, trackers draw minutes
                ended = stop.wait(5.0)
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
