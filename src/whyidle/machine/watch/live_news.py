"""News of a command under ``whyidle run``: its launcher diagnoses it while somebody looks.

Who looks says until when in the time of the file ``asked``; the launcher answers with ``news.json``
beside it. So one diagnosis, within one budget, serves the live view and all who watch, and a watch
needs neither the analysis nor its memory. This module does not import NumPy, for that reason.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from whyidle.errors import WhyidleError
from whyidle.model.live.job_news import JobNews, elapsed_s

if TYPE_CHECKING:
    from whyidle.machine.watch.recorded_job import RecordedJob
    from whyidle.record.live_state import LiveWatch

ASKED: Final = "asked"
NEWS: Final = "news.json"
EVERY_S: Final = 1.0
"""time between two answers, as between two looks of most watches"""
FRESH_S: Final = 4.0
"""an answer that is older is none: the launcher has other work, or was killed"""
PATIENCE_S: Final = 8.0
"""after which a job is diagnosed by who looks: importing the causes takes a busy machine seconds"""
LEAST_S, MOST_S = 15.0, 9000.0
"""bounds of how long one look asks for news; it asks for two and a half times its interval"""


class NewsDesk:
    """Answers, beside a command that ``whyidle run`` has started. ``follow`` makes the state that
    is shared with the live view; nothing is made before somebody asks."""

    def __init__(self, recording: Path, follow: Callable[[], LiveWatch]) -> None:
        self._recording, self._follow = recording, follow
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, name="whyidle-news", daemon=True)

    def __enter__(self) -> NewsDesk:
        try:
            (self._recording / ASKED).touch()
            os.utime(self._recording / ASKED, (0, 0))
        except OSError:
            return self  # a full disk: who looks diagnoses
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(1.0)

    def _run_loop(self) -> None:
        job: RecordedJob | None = None
        while not self._stop.wait(EVERY_S):
            try:
                if (self._recording / ASKED).stat().st_mtime < time.time():
                    continue
                job = job or self._open_job()
                draft = self._recording / f"{NEWS}~"
                draft.write_bytes(msgspec.json.encode(job.look()))
                draft.replace(self._recording / NEWS)
            except (WhyidleError, OSError):
                continue  # who looks notices that no news came

    def _open_job(self) -> RecordedJob:
        from whyidle.machine.watch.recorded_job import RecordedJob  # noqa: PLC0415  # numpy

        return RecordedJob(self._recording, self._follow())


class FollowedJob:
    """A recorded job for who looks. ``lasting``: more looks will follow, so that news are worth
    waiting for; otherwise, and where the launcher does not answer, it is diagnosed here."""

    def __init__(self, recording: Path, *, lasting: bool) -> None:
        self._recording = recording
        self._waits = lasting
        self._heard_s = time.monotonic()
        self._before_s = self._heard_s
        self._own: RecordedJob | None = None

    def look(self) -> JobNews | None:
        """The latest; None while it is awaited."""
        now = time.monotonic()
        interval, self._before_s = now - self._before_s, now
        if self._waits and self._ask(interval):
            if (news := self._read_news()) is not None:
                self._heard_s = now
                return news
            if now - self._heard_s < PATIENCE_S + interval:
                return None
        self._waits = False
        if self._own is None:
            from whyidle.machine.watch.recorded_job import RecordedJob  # noqa: PLC0415  # numpy

            self._own = RecordedJob(self._recording)
        return self._own.look()

    def _ask(self, interval_s: float) -> bool:
        until = time.time() + min(MOST_S, max(LEAST_S, 2.5 * interval_s))
        try:
            asked = (self._recording / ASKED).stat().st_mtime
            if asked < until - LEAST_S / 2:
                os.utime(self._recording / ASKED, (until, until))
        except OSError:
            return False  # nobody answers there, or only its owner may ask
        return True

    def _read_news(self) -> JobNews | None:
        path = self._recording / NEWS
        try:
            if time.time() - path.stat().st_mtime > FRESH_S:
                return None
            news = msgspec.json.decode(path.read_bytes(), type=JobNews)
        except (OSError, msgspec.DecodeError):
            return None
        steps = msgspec.structs.replace(news.steps, last_step_s=elapsed_s(news.last_step_ns))
        return msgspec.structs.replace(news, steps=steps)
