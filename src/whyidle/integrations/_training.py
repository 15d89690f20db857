"""What the callbacks share: one watch from the beginning of a training to its end."""

from __future__ import annotations

import sys
from pathlib import Path

from whyidle import step
from whyidle.api.documents import Diagnosis
from whyidle.api.own_process import Profile, Watch
from whyidle.errors import WhyidleError


class WatchedTraining:
    """Watches a training in its own process and reports at its end.

    Args:
        report: where the report is printed: ``terminal`` (standard error) or ``none``. The
            diagnosis is stored in any case.
        html: the file to write the HTML page to; None writes no page.
        store: the folder of the run store.
        profile: as for ``whyidle.watch``.
    """

    def __init__(
        self,
        report: str = "terminal",
        html: str | Path | None = None,
        store: str | Path | None = None,
        profile: Profile = "auto",
    ) -> None:
        self._report = report
        self._html = html
        self._watch = Watch(store, profile)
        self._steps = 0

    @property
    def diagnosis(self) -> Diagnosis | None:
        """Why the device idled; None before the end of the training."""
        return self._watch.diagnosis

    def begin_training(self) -> None:
        """Start to watch. What prevents that is printed, and the training goes on."""
        try:
            self._watch.start()
        except WhyidleError as error:
            _print_error(error)

    def mark_step(self, steps: int) -> None:
        """A step ends here if the number of optimizer ``steps`` has changed."""
        if steps != self._steps:
            self._steps = steps
            step()

    def end_training(self, status: int = 0) -> None:
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
