"""Heals the command before a search, so that trials compare models and not data pipelines."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from whyidle.errors import TrialError
from whyidle.model.diagnosis import Diagnosis, Trial
from whyidle.model.documents.search import SearchSetup
from whyidle.planning.search.command_template import fill_command
from whyidle.planning.search.study import first_values
from whyidle.planning.search.trial_process import LAUNCHER


def heal_loader(
    setup: SearchSetup, folder: Path, seconds: float, tell: Callable[[str], None] | None
) -> str | None:
    """Let ``whyidle fix`` try fixes on the command with the values of the first trial, and tell
    what became of each (``tell`` of None: quietly). Returns the text of the plan, or None where no
    fix was kept.

    Raises:
        TrialError: ``whyidle fix`` fails.
    """
    place = folder / "heal"
    shutil.rmtree(place, ignore_errors=True)  # of a search that was killed before its first trial
    place.mkdir(parents=True)
    filled = fill_command(setup.command, setup.dimensions, first_values(setup), 0, place)
    plan, document = place / "plan.toml", place / "fix.json"
    files = ["--plan", plan, "--patch", place / "fix.patch", "--json", document, "--no-store"]
    quiet = ["-q"] if tell is None else []
    words = ["fix", "--budget", f"{seconds:g}s", *map(str, files), *quiet, "--", *filled.words]
    launcher = [sys.executable, "-IS", str(LAUNCHER), str(os.getpid()), "10"]  # ends it with us
    with subprocess.Popen(
        [*launcher, sys.executable, "-m", "whyidle", *words],
        env={**os.environ, **filled.variables},
        stdout=subprocess.DEVNULL,
        stderr=None if tell else subprocess.PIPE,  # its progress
        text=True,
    ) as child:
        try:
            _, error = child.communicate()
        finally:
            child.terminate()
    if child.returncode or not document.exists():
        why = (error or "").strip().removeprefix("whyidle: ")
        raise TrialError("The loader cannot be fixed first.", why=why, hint="Omit --heal.")
    for trial in msgspec.json.decode(document.read_bytes(), type=Diagnosis).trials:
        if tell is not None and trial.edits:  # advice has none
            tell(_describe_fix(trial))
    return plan.read_text(encoding="utf-8") if plan.exists() else None


def _describe_fix(trial: Trial) -> str:
    if not trial.kept:
        return f"not healed by {trial.fix}: {trial.why.replace('--budget', '--heal')}"
    gain = "" if trial.speedup is None else f" {trial.speedup:.2f} times as fast,"
    return f"healed by {trial.fix}:{gain} {trial.numerics or 'losses not compared'}"
