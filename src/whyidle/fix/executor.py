"""The interface of executors, which run the arms of trials.

Executors are plug-ins, one per file in ``executors``, with a function ``start`` from `TrialTerms`
to `Executor`. Every arm is an isolated process, and all arms of a session run on one machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from whyidle import catalog
from whyidle.errors import UsageError
from whyidle.fix.arms.arm import ArmRequest, ArmResult
from whyidle.fix.isolation import Level

FOLDER = "fix.executors"


@dataclass(frozen=True, slots=True)
class TrialTerms:
    """Settings of all arms."""

    command: Sequence[str]
    network: bool = False  # allow network access
    yes: bool = False  # continue with incomplete isolation
    resources: Mapping[str, float] = field(default_factory=dict)
    """resources of an arm (``cpu``, ``gpu`` or the cluster's names); empty: a machine"""
    level: Level = "python"  # least isolation
    here: Path = field(default_factory=Path.cwd)  # working folder of the command
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


class Executor(Protocol):
    """Runs arms. Must be closed."""

    def run_arm(self, request: ArmRequest, folder: Path) -> ArmResult:
        """Run one arm, as ``arms.arm.run_arm``.

        Raises:
            OSError: the patched files cannot be copied.
            TrialError: the machine was lost, or the isolation is not available.
        """

    def executor_notes(self) -> list[str]:
        """Sentences on blocked actions, and on the machine."""

    def close(self) -> None:
        """Release its resources."""


def start_executor(name: str, terms: TrialTerms) -> Executor:
    """Start the executor ``name``, and check that it can run arms.

    Raises:
        UsageError: the name is unknown, or the executor does not support the settings.
        MissingExtraError: a required package is not installed.
        TrialError: the job cannot be fully isolated, and ``yes`` is not set.
    """
    known = catalog.plugin_names(FOLDER)
    if name not in known:
        raise UsageError(f"Unknown engine {name!r}.", why=f"Available: {', '.join(known)}.")
    executor: Executor = catalog.plugin_module(FOLDER, name).start(terms)
    return executor
