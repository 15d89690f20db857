"""Reads many ranks in several processes and keeps of each what fits into memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.rank_survey import SurveyedRank
from whyidle.errors import InputError
from whyidle.readers._files.helper_process import FAULTS, HelperProcess, usable_cores
from whyidle.readers._files.helper_server import answer_requests
from whyidle.readers._files.parallel_load import load_all
from whyidle.readers._files.recording_search import Origin
from whyidle.readers._files.worker_ipc import Request

MANY = 16
"""more ranks are surveyed first; all causes are checked on every rank of fewer"""
Progress = Callable[[int, int], None]


class RankReading:
    """The survey of the ranks in ``origins``; ``progress`` is called with (ranks done, ranks)."""

    def __init__(self, origins: Sequence[Origin], progress: Progress | None = None) -> None:
        self._waiting = deque(enumerate(origins))
        self._count, self._progress = len(origins), progress
        self._results: dict[int, Any] = {}
        self._helpers: list[HelperProcess] = []
        self._lock = threading.Lock()
        self._stop = False

    def read_ranks(self, helpers: int | None = None) -> list[SurveyedRank | InputError]:
        """Survey all ranks, with as many ``helpers`` (processes) as there are cores if None."""
        count = min(usable_cores(), self._count) - 1 if helpers is None else helpers
        jobs = list(self._waiting)
        threads = [threading.Thread(target=self._feed_helper, daemon=True) for _ in range(count)]
        try:
            for thread in threads:
                thread.start()
            while (job := self._take_job()) is not None:
                self._keep(job[0], survey_rank(*job[1]))
            for thread in threads:
                thread.join()
            for number, origin in jobs:  # a helper that died leaves its rank unread
                if number not in self._results:
                    self._keep(number, survey_rank(*origin))
        finally:
            with self._lock:
                self._stop = True
                for helper in self._helpers:
                    helper.kill()
            for thread in threads:
                thread.join(timeout=5)
        return [self._results[number] for number, _ in jobs]

    def _take_job(self) -> tuple[int, Origin] | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting and not self._stop else None

    def _keep(self, number: int, result: Any) -> None:
        with self._lock:
            self._results[number] = result
            if self._progress is not None:
                self._progress(len(self._results), self._count)

    def _feed_helper(self) -> None:
        try:
            helper = HelperProcess("whyidle.recordings.rank_survey")
        except OSError:
            return
        with self._lock:
            self._helpers.append(helper)
        try:
            while (job := self._take_job()) is not None:
                path, member = job[1]
                self._keep(job[0], helper.ask(Request(str(path), member)))
        except FAULTS:
            return
        finally:
            helper.kill()
            helper.close()


def survey_rank(path: Path, member: str | None) -> SurveyedRank | InputError:
    """Read one rank and keep of it what a survey needs; or why it cannot be read."""
    importers = list(catalog.load_importers().values())
    try:
        return SurveyedRank(Facts(load_all([(path, member)], importers=importers, helpers=0)[0]))
    except InputError as error:
        return error


def serve_requests() -> None:
    """Survey for another process until its pipe closes."""
    answer_requests(lambda request: survey_rank(Path(request.path), request.member))
