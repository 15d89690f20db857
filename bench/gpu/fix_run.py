"""One run of ``whyidle fix``, and what is shown of its trials."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.gpu.job_run import JobError, last_line, run_command

SAID = 1_500
"""characters"""
LONG_S = 3600.0
"""a job that ``fix`` ends when it has seen enough"""
SPARE_S = 120.0
"""seconds that ``fix`` may take beyond three times its budget"""


def run_fix(
    words: Sequence[str],
    home: Path,
    results: Path,
    environment: Mapping[str, str],
    *,
    consent: Sequence[str] = (),
    budget_s: float,
) -> dict[str, Any]:
    """The document of ``whyidle fix`` for a command in ``home``, and the end of what it ``said``;
    ``results`` gets the plan (``plan.toml``) and the patch (``fix.patch``).

    Raises:
        JobError: it failed.
    """
    document = results / "fixed.json"
    front = [sys.executable, "-m", "whyidle", "fix", "--quiet", "--no-store", "--yes"]
    front += ["--budget", f"{budget_s:.0f}s", "--json", str(document)]
    front += ["--plan", str(results / "plan.toml"), "--patch", str(results / "fix.patch")]
    front += ["--allow", ",".join(consent)] if consent else []
    limit_s = 3 * budget_s + SPARE_S
    status, output, errors = run_command([*front, "--", *words], home, environment, limit_s)
    if status or not document.exists():
        raise JobError(f"whyidle fix ended with status {status}: {last_line(output, errors)}")
    parsed: dict[str, Any] = json.loads(document.read_text(encoding="utf-8"))
    return parsed | {"said": (output + errors).strip()[-SAID:]}


def describe_trial(trial: Mapping[str, Any]) -> dict[str, Any]:
    """What is shown of a trial."""
    keys = ("fix", "consent", "kept", "why", "numerics", "speedup", "low", "high", "predicted")
    return {key: trial[key] for key in keys} | {"pairs": trial.get("pairs", 0)}


def list_kept(trials: Sequence[Mapping[str, Any]]) -> str:
    """The fixes that were kept; an empty text without any."""
    return ", ".join(trial["fix"] for trial in trials if trial["kept"])
