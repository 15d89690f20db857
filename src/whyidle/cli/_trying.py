"""What ``fix`` shows while it tries."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from whyidle.cli import _output

if TYPE_CHECKING:
    from whyidle.engine.trial.judge import Judgement


class Progress:
    """The current trial, on standard error: on a terminal one line that is rewritten, with the time
    that is left; elsewhere a line for each."""

    def __init__(self, *, quiet: bool, budget_s: float) -> None:
        self._quiet, self._budget_s = quiet, budget_s
        self._begun = time.monotonic()
        self._alive = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        return self

    def say(self, text: str) -> None:
        """What is being done now."""
        if self._quiet:
            return
        spent = time.monotonic() - self._begun
        line = f"whyidle: [{spent:4.0f} of {self._budget_s:.0f} s] {text}"
        sys.stderr.write(f"\r\x1b[K{line[: _output.width() - 1]}" if self._alive else f"{line}\n")
        sys.stderr.flush()

    def judged(self, judgement: Judgement) -> None:
        """A trial has ended: a line that stays."""
        gain, name = judgement.effect, judgement.candidate.treatment
        told = f"{gain.speedup:.2f} times as fast" if gain else ""
        why = "" if judgement.kept else judgement.why
        text = ", ".join(part for part in (told, why) if part)
        if not self._quiet:
            clear = "\r\x1b[K" if self._alive else ""
            sys.stderr.write(f"{clear}whyidle: {'kept' if judgement.kept else 'not kept'}: {name}")
            sys.stderr.write(f", {text}\n" if text else "\n")
            sys.stderr.flush()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._alive and not self._quiet:
            sys.stderr.write("\r\x1b[K")
