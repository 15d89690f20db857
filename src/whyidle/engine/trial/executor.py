"""Where trials run: what an executor is told, and what it can do.

Executors are plug-ins, a file each in ``executors``, with a function ``start`` from `TrialTerms`
to an `Executor`. Whatever the executor, an arm is an isolated process of its own, on a machine
where the arms that it is compared with run as well.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from whyidle import catalog
from whyidle.engine.isolation import Level
from whyidle.engine.trial.arms.arm import ArmRequest, ArmResult
from whyidle.errors import UsageError

FOLDER = "engine.trial.executors"


@dataclass(frozen=True, slots=True)
class TrialTerms:
    """What holds for all arms: the command, as it is typed in ``here``, whether it may reach the
    ``network``, and whether somebody said ``yes`` to what cannot be held back. ``resources`` are
    what an arm holds of a cluster (``cpu``, ``gpu``, or names of the cluster's own); none: all of
    one machine. ``level`` is the kind of isolation that arms have there at least."""

    command: Sequence[str]
    network: bool = False
    yes: bool = False
    resources: Mapping[str, float] = field(default_factory=dict)
    level: Level = "python"
    here: Path = field(default_factory=Path.cwd)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


class Executor(Protocol):
    """Runs arms. To be closed in the end."""

    def run_arm(
        self, asked: ArmRequest, folder: Path, slowest: Mapping[int, float] | None = None
    ) -> ArmResult:
        """Run one arm; ``folder`` (new, empty) gets its recording. In a race, ``slowest`` is the
        most seconds of a step by rung: an arm that takes longer is ended.

        Raises:
            OSError: the copies of patched files cannot be made.
            TrialError: the machine that it ran on was lost, or its isolation is not available.
        """

    def executor_notes(self) -> list[str]:
        """What arms tried to write or send and could not, and where they ran, a sentence each."""

    def close(self) -> None:
        """Give back what it holds."""


def start_executor(name: str, terms: TrialTerms) -> Executor:
    """The executor of that name, once it has seen that arms can be run there.

    Raises:
        UsageError: there is none of that name, or it cannot do what is asked.
        MissingExtraError: what it needs is not installed.
        TrialError: what the job does could not be held back there, and nobody said yes.
    """
    known = catalog.plugin_names(FOLDER)
    if name not in known:
        raise UsageError(f"There is no engine {name!r}.", why=f"Known: {', '.join(known)}.")
    executor: Executor = catalog.plugin_module(FOLDER, name).start(terms)
    return executor
