"""The part that all callbacks share: one watch per training."""

from __future__ import annotations

import sys
from pathlib import Path

from whyidle import step
from whyidle.api.documents import Diagnosis
from whyidle.api.own_process import Profile, Watch
from whyidle.errors import WhyidleError


class WatchedTraining:
    """Watches a training in its own process and reports at its end: the base of callbacks."""

    def __init__(
        self,
        report: str = "terminal",
        html: str | Path | None = None,
        store: str | Path | None = None,
        profile: Profile = "auto",
    ) -> None:
        super().__init__()
        self._report = report
        self._html = html
        self._watch = Watch(store, profile)
        self._steps = 0

    @property
    def diagnosis(self) -> Diagnosis | None:
        """Why the device idled; None before the end of training, and on ranks other than 0."""
        return self._watch.diagnosis

    def _begin_training(self) -> None:
        """Start to watch. An error is printed, and the training continues."""
        try:
            self._watch.start()
        except WhyidleError as error:
            _print_error(error)

    def _mark_step(self, steps: int) -> None:
        """Mark the end of a step if the number of optimizer ``steps`` has changed."""
        if steps != self._steps:
            self._steps = steps
            step()

    def _end_training(self, status: int = 0) -> None:
        """Stop watching, store the diagnosis and report it."""
        self._watch.stop(status)
        try:
            diagnosis = self._watch.diagnosis
            if diagnosis is None:
                return
            if self._html is not None:
                diagnosis.to_html(self._html)
        except WhyidleError as error:
            _print_error(error)
            return
        if self._report == "terminal":
            print(diagnosis, file=sys.stderr)


def _print_error(error: WhyidleError) -> None:
    print(f"whyidle: {error}", file=sys.stderr)
