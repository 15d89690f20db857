"""Trials on the machine that whyidle runs on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from whyidle.engine.trial.arms import arm
from whyidle.engine.trial.arms.arm import ArmRequest, ArmResult
from whyidle.engine.trial.arms.isolation_report import TrialIsolation
from whyidle.engine.trial.executor import TrialTerms
from whyidle.errors import UsageError


def start(terms: TrialTerms) -> LocalExecutor:
    """See what kind of isolation is available here.

    Raises:
        UsageError: resources are asked for, which nothing here hands out.
        TrialError: what the job does could not all be undone, and nobody said yes.
    """
    if terms.resources:
        raise UsageError("--resources is for a cluster.", hint="whyidle fix --engine ray ...")
    kept_in = TrialIsolation(network=terms.network)
    kept_in.check_isolation(terms.command, yes=terms.yes)
    return LocalExecutor(terms, kept_in)


class LocalExecutor:
    """Arms are processes of ours."""

    def __init__(self, terms: TrialTerms, kept_in: TrialIsolation) -> None:
        self._terms, self._kept_in = terms, kept_in

    def run_arm(
        self, asked: ArmRequest, folder: Path, slowest: Mapping[int, float] | None = None
    ) -> ArmResult:
        """One arm."""
        with self._kept_in.isolate_arm(folder) as guard:
            ran = arm.run_arm(self._terms.command, asked, folder, guard, slowest)
            return replace(ran, behind=guard.make_report())

    def executor_notes(self) -> list[str]:
        """What was held back."""
        return self._kept_in.isolation_notes()

    def close(self) -> None:
        """Nothing is held."""
