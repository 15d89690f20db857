"""Publishes looks: each publisher on a thread of its own, behind a queue that drops the oldest.

A destination that is slow or away delays nobody. Its first failure is reported, and that it answers
again; then it is tried in silence, with every look.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from whyidle import catalog
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.documents.watch_document import WatchedMachine
from whyidle.model.live.metric_series import Metric, SeriesBuilder
from whyidle.model.live.publisher import Destination

QUEUED: Final = 16
"""looks that wait for a slow destination; older ones are worth nothing to it"""
CLOSE_S: Final = 10.0
RETRY_S: Final = 15.0
"""time between attempts to deliver what may not be lost"""
Tell = Callable[[str], object]


class Closable(Protocol):
    """A publisher, or a route of alerts."""

    @property
    def publish(self) -> Callable[..., object]:
        """Deliver one thing."""

    @property
    def close(self) -> Callable[..., object]:
        """Deliver the last thing and release everything."""


class PublisherThread:
    """One publisher or route behind its queue. ``retry_s``: what fails is tried again after that
    time, before what comes later; without it, it is dropped, since the next look replaces it."""

    def __init__(
        self,
        name: str,
        publisher: Closable,
        faults: tuple[type[Exception], ...],
        tell: Tell,
        retry_s: float | None = None,
    ) -> None:
        self.name, self.publisher = name, publisher
        self._faults, self._tell, self._retry_s = faults, tell, retry_s
        self._queue: deque[tuple[object, ...]] = deque(maxlen=QUEUED)
        self._wake = threading.Event()
        self._ended = False
        self._final: Diagnosis | None = None
        self.has_failed = self._is_back = False
        self._thread = threading.Thread(
            target=self._run_loop, name=f"whyidle-publish-{name}", daemon=True
        )
        self._thread.start()

    def enqueue(self, *arguments: object) -> None:
        """Queue a call of ``publish``; never waits."""
        self._queue.append(arguments)
        self._wake.set()

    def close(self, diagnosis: Diagnosis | None) -> None:
        """Publish what is queued and the diagnosis, within ``CLOSE_S``."""
        self._final, self._ended = diagnosis, True
        self._wake.set()
        self._thread.join(CLOSE_S)
        if self._thread.is_alive():
            self._report_once("it did not answer until the end")

    def _run_loop(self) -> None:
        while not (self._ended and not self._queue):
            self._wake.wait()
            self._wake.clear()
            while self._queue:
                arguments = self._queue.popleft()
                if self._try(self.publisher.publish, *arguments) or self._retry_s is None:
                    continue
                if self._ended:
                    break
                if len(self._queue) < QUEUED:
                    self._queue.appendleft(arguments)
                self._pause(self._retry_s)
            if self._ended:
                break
        self._try(self.publisher.close, self._final)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._ended and (left := until - time.monotonic()) > 0:
            self._wake.wait(left)
            self._wake.clear()
        self._wake.set()

    def _try(self, call: Callable[..., object], *arguments: object) -> bool:
        try:
            call(*arguments)
        except self._faults as error:
            text = str(error).strip().partition("\n")[0]
            self._report_once(f"{type(error).__name__}: {text}" if text else type(error).__name__)
            return False
        if self.has_failed and not self._is_back and not self._ended:
            self._is_back = True
            self._tell(f"{self.name}: published again")
        return True

    def _report_once(self, text: str) -> None:
        if not self.has_failed:
            self.has_failed = True
            self._tell(f"{self.name}: not published: {text[:300]}")


class Publishing:
    """All open publishers, and the series that they share."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._series = SeriesBuilder()
        self._threads: dict[str, PublisherThread] = {}

    def open(self, name: str, destination: Destination) -> Any:
        """Open a publisher by the name of its file.

        Raises:
            WhyidleError: it cannot be opened.
        """
        module = catalog.load_publishers()[name]
        publisher = module.open(destination)
        self._threads[name] = PublisherThread(name, publisher, module.FAULTS, self._tell)
        return publisher

    def __contains__(self, name: str) -> bool:
        return name in self._threads

    def __bool__(self) -> bool:
        return bool(self._threads)

    def publish(self, machine: WatchedMachine) -> list[Metric]:
        """Hand a look to every publisher; return its metrics."""
        metrics = self._series.add_look(machine)
        for thread in list(self._threads.values()):
            thread.enqueue(machine, metrics)
        return metrics

    def close(self, diagnosis: Diagnosis | None = None) -> None:
        """Close every publisher."""
        for thread in self._threads.values():
            thread.close(diagnosis)
        self._threads.clear()
