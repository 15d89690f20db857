"""Progress of ``whyidle tune`` on standard error."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from whyidle.cli._progress_line import StatusLine

if TYPE_CHECKING:
    from whyidle.model.documents.search import SearchTrial


class TuneProgress:
    """Prints a line for each trial that has ended; on a terminal also one line, rewritten, with
    the trials that run."""

    def __init__(self, *, quiet: bool, trials: int) -> None:
        self._line, self._trials = StatusLine(quiet=quiet), trials
        self._running: dict[int, SearchTrial] = {}
        self._ended = 0
        self._best = ""
        self._due = 0.0

    def trial_started(self, trial: SearchTrial) -> None:
        """Show a trial that starts."""
        self._running[trial.number] = trial
        self._draw_line(at_once=True)

    def trial_reported(self, trial: SearchTrial) -> None:
        """Show the metric of a trial."""
        self._running[trial.number] = trial
        self._draw_line()

    def trial_ended(self, trial: SearchTrial) -> None:
        """Print the result of a trial."""
        from whyidle.reports import _search_table as table

        self._running.pop(trial.number, None)
        self._ended += 1
        parts = [f"trial {trial.number}: {table.format_settings(trial)}"]
        parts.append(table.format_metric(trial.metric))
        parts.append(table.format_length(trial.seconds))
        parts.append(table.ENDINGS.get(trial.ending, trial.ending))
        parts += [part for part in (trial.why, table.describe_wait(trial)) if part]
        self.tell(", ".join(parts))
        self._draw_line(at_once=True)

    def tell(self, text: str) -> None:
        """Print a line."""
        self._line.tell(f"whyidle: {text}")

    def _draw_line(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if now < self._due and not at_once:
            return
        self._due = now + 0.2
        text = f"whyidle: [{self._ended} of {self._trials}] " + "; ".join(
            f"trial {t.number}" + (f" {t.reports[-1].value:.4g}" if t.reports else "")
            for t in self._running.values()
        )
        self._line.draw(text)

    def close(self) -> None:
        """Remove the line."""
        self._line.draw("")
