"""Runs trials on this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from whyidle.errors import UsageError
from whyidle.fix.arms import arm
from whyidle.fix.arms.arm import ArmRequest, ArmResult
from whyidle.fix.arms.isolation_report import TrialIsolation
from whyidle.fix.executor import TrialTerms


def start(terms: TrialTerms) -> LocalExecutor:
    """Determine the isolation of this machine.

    Raises:
        UsageError: resources are requested.
        TrialError: the job cannot be fully isolated, and ``yes`` is not set.
    """
    if terms.resources:
        raise UsageError("--resources requires a cluster.", hint="whyidle fix --engine ray ...")
    kept_in = TrialIsolation(network=terms.network)
    kept_in.check_isolation(terms.command, yes=terms.yes)
    return LocalExecutor(terms, kept_in)


class LocalExecutor:
    """Runs arms as child processes."""

    def __init__(self, terms: TrialTerms, kept_in: TrialIsolation) -> None:
        self._terms, self._kept_in = terms, kept_in

    def run_arm(self, request: ArmRequest, folder: Path) -> ArmResult:
        """Run one arm."""
        with self._kept_in.isolate_arm(folder) as guard:
            result = arm.run_arm(self._terms.command, request, folder, guard)
            return replace(result, isolation=guard.make_report())

    def executor_notes(self) -> list[str]:
        """Sentences on blocked actions."""
        return self._kept_in.isolation_notes()

    def close(self) -> None:
        """Do nothing: no resources are held."""
