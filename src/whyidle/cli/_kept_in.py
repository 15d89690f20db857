"""How the trials of ``fix`` are kept in, and what is told of that."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from whyidle.engine.shield import shield
from whyidle.errors import TrialError

if TYPE_CHECKING:
    from whyidle.engine.shield.guard import Leak, Shield

MOST = 5
"""of what was held back so many are told"""


class KeptIn:
    """The guards of all arms, and what they held back. ``network`` lets the job reach it."""

    def __init__(self, *, network: bool) -> None:
        self.network = network
        self.level = ""
        self.leaks: dict[Leak, None] = {}

    def check(self, *, yes: bool) -> None:
        """Look what can be had here, before anything is run.

        Raises:
            TrialError: nothing that the system offers keeps a trial in, and nobody said --yes.
        """
        with tempfile.TemporaryDirectory(prefix="whyidle-") as folder:
            scratch = Path(folder) / "scratch"
            scratch.mkdir()
            with shield(scratch, network=self.network) as guard:
                self.level, why = guard.level, guard.why
        if self.level == "python" and not yes:
            raise TrialError(
                "Here a trial is kept in by Python only.",
                why="Files that other programs or C++ code of the job write, and what they send, "
                f"would not be held back ({why}).",
                hint="whyidle fix --yes ... goes on all the same.",
            )

    @contextmanager
    def arm(self, folder: Path) -> Iterator[Shield]:
        """A guard around one arm, whose ``folder`` stays writable."""
        scratch = folder / "scratch"
        scratch.mkdir()
        with shield(scratch, network=self.network, real=[folder]) as guard:
            yield guard
            self.leaks |= dict.fromkeys(guard.leaks())

    def notes(self) -> list[str]:
        """What was held back, or let through, a sentence each."""
        found = list(self.leaks)
        told = [f"{leak.what}{f' ({leak.where})' if leak.where else ''}" for leak in found[:MOST]]
        more = f"; and {len(found) - MOST} more" if len(found) > MOST else ""
        if not told:
            return []
        head = "Let through in trials (--network)" if self.network else "Held back in trials"
        return [f"{head}: {'; '.join(told)}{more}."]
