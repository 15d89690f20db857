"""Progress of ``whyidle fix`` on standard error."""

from __future__ import annotations

import textwrap
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from whyidle.cli import _output
from whyidle.cli._progress_line import StatusLine
from whyidle.model.number_text import MOST_NAMED
from whyidle.reports._number_format import format_factor, format_gain, is_uninformative

if TYPE_CHECKING:
    from whyidle.fix.loop.candidates import Candidate
    from whyidle.fix.loop.trial_result import TrialResult
    from whyidle.model.diagnosis import Diagnosis

EVERY_S = 1.0
"""period of redrawing: a clock that stands still looks like a program that hangs"""


class FixProgress:
    """Shows the current stage and the time spent: on a terminal in one line that is rewritten every
    second, elsewhere with one line per stage."""

    def __init__(self, *, quiet: bool, budget_s: float) -> None:
        self._line, self._budget_s = StatusLine(quiet=quiet), budget_s
        self._begun = time.monotonic()
        self._text = ""
        self._over = threading.Event()
        self._ticker = threading.Thread(target=self._tick_forever, daemon=True)

    def __enter__(self) -> FixProgress:
        if self._line.alive:
            self._ticker.start()
        return self

    def _tick_forever(self) -> None:
        while not self._over.wait(EVERY_S):
            self._draw_line()

    def _draw_line(self) -> None:
        if self._text and not self._over.is_set():
            self._line.draw(self._status_line())

    def _status_line(self) -> str:
        spent = time.monotonic() - self._begun
        return f"whyidle: [{spent:4.0f} of {self._budget_s:.0f} s] {self._text}"

    def show_stage(self, text: str) -> None:
        """Show the current stage."""
        self._text = text
        if self._line.alive:
            self._draw_line()
        else:
            self._line.tell(self._status_line())

    def show_watched_job(self, diagnosis: Diagnosis, ready: Sequence[Candidate]) -> None:
        """Print the verdict on the watched job and the candidates."""
        names = [
            item.fix
            + (f" (predicted {format_factor(item.predicted.speedup)}x)" if item.predicted else "")
            for item in ready[:MOST_NAMED]
        ]
        more = [f"{len(ready) - MOST_NAMED} more"] if len(ready) > MOST_NAMED else []
        first, _, _ = diagnosis.verdict.headline.partition(". ")
        self._print_line(f"{diagnosis.verdict.state}: {first}")
        self._print_line(f"to try: {', '.join([*names, *more])}" if names else "nothing to try")

    def show_trial_result(self, result: TrialResult) -> None:
        """Print the result of a trial."""
        gain, name = result.effect, result.candidate.fix
        measured = f"{format_gain(gain.speedup, gain.low, gain.high)} times as fast" if gain else ""
        if gain and result.rejection_kind == "untold":  # the middle would be read as a result
            ends = f"{format_factor(gain.low)} to {format_factor(gain.high)} times as fast"
            measured = "" if is_uninformative(gain.low, gain.high) else ends
        why = "" if result.kept else result.rejection_text
        text = ", ".join(part for part in (name, measured, why) if part)
        self._print_line(f"{'kept' if result.kept else 'not kept'}: {text}")

    def _print_line(self, text: str) -> None:
        self._line.tell(self._fold_text(f"whyidle: {text}"))

    def _fold_text(self, text: str) -> str:
        if not self._line.alive:  # a file that is searched by line
            return text
        return textwrap.fill(text, _output.output_width() - 1, subsequent_indent=" " * 9)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._line.alive:
            self._ticker.join()
        self._line.draw("")
