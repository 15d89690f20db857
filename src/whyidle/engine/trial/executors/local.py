"""Trials on the machine that whyidle runs on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from whyidle.engine.trial import arm
from whyidle.engine.trial.arm import Asked, Ran
from whyidle.engine.trial.executor import Terms
from whyidle.engine.trial.kept_in import KeptIn
from whyidle.errors import UsageError


def start(terms: Terms) -> Local:
    """See what kind of isolation is available here.

    Raises:
        UsageError: resources are asked for, which nothing here hands out.
        TrialError: what the job does could not all be undone, and nobody said yes.
    """
    if terms.resources:
        raise UsageError("--resources is for a cluster.", hint="whyidle fix --engine ray ...")
    kept_in = KeptIn(network=terms.network)
    kept_in.check(terms.command, yes=terms.yes)
    return Local(terms, kept_in)


class Local:
    """Arms are processes of ours."""

    def __init__(self, terms: Terms, kept_in: KeptIn) -> None:
        self._terms, self._kept_in = terms, kept_in

    def run(self, asked: Asked, folder: Path, slowest: Mapping[int, float] | None = None) -> Ran:
        """One arm."""
        with self._kept_in.arm(folder) as guard:
            ran = arm.run(self._terms.command, asked, folder, guard, slowest)
            return replace(ran, behind=guard.behind())

    def notes(self) -> list[str]:
        """What was held back."""
        return self._kept_in.notes()

    def close(self) -> None:
        """Nothing is held."""
