"""Follows jobs that run under ``whyidle run``, for as long as somebody looks."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from whyidle.errors import WhyidleError
from whyidle.machine.watch.live_news import FollowedJob
from whyidle.model.live.job_news import JobNews
from whyidle.record.recording_diagnosis import TELEMETRY, is_running, recording_at
from whyidle.store.entry import Entry

SILENT_S: Final = 60.0
"""the launcher writes telemetry twice a second: where it has been silent for longer, it was killed,
or its machine is gone"""

Status = Literal["running", "ending", "ended", "lost"]
"""ending: the command has ended and is being diagnosed · lost: its launcher was killed before it
could write a diagnosis"""


class _Followed:
    def __init__(self, recording: Path) -> None:
        self.job = FollowedJob(recording, lasting=True)
        self.news: JobNews | None = None
        self.looked_s = 0.0


class LiveJobs:
    """The news of jobs, shared by all who look."""

    def __init__(self) -> None:
        self._jobs: dict[Path, _Followed] = {}
        self._lock = threading.Lock()

    def look(self, recording: Path) -> JobNews | None:
        """The news of a job."""
        now = time.monotonic()
        with self._lock:
            for path in [p for p, one in self._jobs.items() if now - one.looked_s > 60.0]:
                if path != recording:
                    del self._jobs[path]
            one = self._jobs.setdefault(recording, _Followed(recording))
            if now - one.looked_s >= 0.9:
                one.looked_s = now
                with suppress(WhyidleError, OSError):
                    one.news = one.job.look() or one.news
            return one.news


def status_of(entry: Entry) -> Status:
    """Whether a run is running, according to its files, which may be of another machine."""
    recording = recording_at(entry.path)
    if entry.meta is None or entry.meta.state != "recording" or recording is None:
        return "ended"
    if _silence_s(recording) > SILENT_S:
        return "lost"
    return "running" if is_running(recording) else "ending"


def _silence_s(recording: Path) -> float:
    path = recording / TELEMETRY
    try:
        return time.time() - (path if path.exists() else recording).stat().st_mtime
    except OSError:  # it was deleted
        return float("inf")
