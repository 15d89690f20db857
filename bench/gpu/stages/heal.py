"""What ``whyidle fix`` makes of a sick job, against the same job cured by hand.

The plan and the patch that ``fix`` wrote are both used as a user would: the plan on the script as
it is, the patch on a copy of it that runs without whyidle.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.gpu.job_run import JOBS, PACE, JobError, run_command
from bench.gpu.stage import Item, Stage
from bench.gpu.target import Target
from bench.gpu.twins import SICK, Twin

NAMES = (
    "loader-without-workers",
    "pageable-copies",
    "fp32",
    "unfused-optimizer",
    "allocator-churn",
)
SHORT = ("allocator-churn",)
GPU_BUDGET_S, EMULATED_BUDGET_S, SHORT_BUDGET_S = 68.0, 120.0, 20.0
"""of ``fix``"""
ARM_S, START_S, SPARE_S = 4.0, 5.0, 120.0
"""seconds that a compared run trains; that its start takes; that a command may take beyond"""
LONG_S = 3600.0
"""a job that ``fix`` ends when it has seen enough"""
ARMS = ("sick", "planned", "patched", "cured")
COUNTERS = {"WHYIDLE_EMULATED_COUNTERS": "counters"}


def heal_twin(target: Target, twin: Twin) -> dict[str, Any]:
    """Fix a sick job, then time it as it is, with the plan, with the patch, and cured by hand."""
    options = twin.options(target, cured=False)
    environment = {**target.environment, **twin.environment(target)}
    environment |= COUNTERS if target.emulated else {}
    with tempfile.TemporaryDirectory(prefix="whyidle-gpu-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        copy = target.write_script(JOBS / twin.script, folder / "job")
        words = list_words(target, copy, options, LONG_S)
        document = fix_job(words, folder, environment, twin.consent, budget_s(target))
        plan, patch = folder / "plan.toml", folder / "fix.patch"
        reason = apply_patch(patch, folder / "job", folder / "patched")
        rates = {}
        for arm in ARMS:
            if (arm == "planned" and not plan.exists()) or (arm == "patched" and reason):
                continue
            script = (folder / "patched" if arm == "patched" else folder / "job") / copy.name
            chosen = twin.options(target, cured=True) if arm == "cured" else options
            front = ["--plan", str(plan)] if arm == "planned" else None
            words = list_words(target, script, chosen, min(ARM_S, target.job_s))
            rates[arm] = time_samples(words, environment, front)
        return {
            "trials": [describe_trial(trial) for trial in document["trials"]],
            "plan": plan.exists(),
            "patch": patch.read_text(encoding="utf-8").count("\n+") if patch.exists() else 0,
            "patch_missing": reason,
            "samples_per_s": rates,
        }


def budget_s(target: Target) -> float:
    """Seconds that ``fix`` may take of one job."""
    if target.short:
        return SHORT_BUDGET_S
    return EMULATED_BUDGET_S if target.emulated else GPU_BUDGET_S


def list_words(target: Target, script: Path, options: Sequence[str], seconds: float) -> list[str]:
    """The command of a job; its script is in the folder where it runs."""
    words = [sys.executable, str(script), "--device", target.kind, "--seconds", str(seconds)]
    return [*words, *options]


def fix_job(
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    consent: Sequence[str],
    budget: float,
) -> dict[str, Any]:
    """``whyidle fix``: its document; the plan and the patch lie in the folder.

    Raises:
        JobError: it failed.
    """
    document = folder / "fixed.json"
    front = [sys.executable, "-m", "whyidle", "fix", "--quiet", "--no-store", "--yes"]
    front += ["--budget", f"{budget:.0f}s", "--json", str(document)]
    front += ["--plan", str(folder / "plan.toml"), "--patch", str(folder / "fix.patch")]
    front += ["--allow", ",".join(consent)] if consent else []
    home = Path(words[1]).parent
    command = [*front, "--", words[0], Path(words[1]).name, *words[2:]]
    status, output, errors = run_command(command, home, environment, 3 * budget + SPARE_S)
    if status or not document.exists():
        last = (errors.strip() or output.strip()).splitlines()[-1:]
        raise JobError(f"whyidle fix ended with status {status}: {' '.join(last)}")
    parsed: dict[str, Any] = json.loads(document.read_text(encoding="utf-8"))
    return parsed


def apply_patch(patch: Path, source: Path, copy: Path) -> str:
    """Patch a copy of a folder; why there is no patched copy, or an empty text."""
    if not patch.exists():
        return "fix wrote no patch"
    if shutil.which("git") is None:
        return "no git here to apply it"
    shutil.copytree(source, copy)
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(copy.parent)}
    status, _, errors = run_command(["git", "apply", str(patch)], copy, environment, SPARE_S)
    return f"git apply: {errors.strip()[-200:]}" if status else ""


def time_samples(
    words: Sequence[str], environment: Mapping[str, str], front: Sequence[str] | None = None
) -> float:
    """Samples per second of a run in its folder; ``front`` are options of ``whyidle run``.

    Raises:
        JobError: it failed.
    """
    if front is not None:
        run = [sys.executable, "-m", "whyidle", "run", "--quiet", "--no-live", "--no-store"]
        command = [*run, "--profile", "off", *front, "--", *words]
    else:
        command = list(words)
    status, output, errors = run_command(command, Path(words[1]).parent, environment, SPARE_S)
    match = PACE.search(output)
    if status or match is None:
        last = (errors.strip() or output.strip()).splitlines()[-1:]
        raise JobError(f"status {status}: {' '.join(last) or 'no output'}")
    return int(match[3]) / (float(match[2]) / 1e3)


def describe_trial(trial: Mapping[str, Any]) -> dict[str, Any]:
    """What is shown of a trial."""
    keys = ("fix", "consent", "kept", "why", "numerics", "speedup", "low", "high", "predicted")
    return {key: trial[key] for key in keys} | {"pairs": trial.get("pairs", 0)}


def list_items(target: Target) -> list[Item]:
    """One item per job."""
    cost = budget_s(target) + len(ARMS) * (min(ARM_S, target.job_s) + START_S)
    twins = {twin.name: twin for twin in SICK}
    return [
        Item(name, partial(heal_twin, target, twins[name]), cost)
        for name in (SHORT if target.short else NAMES)
    ]


def table_lines(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """A row per job, then every trial."""
    yield "Speed against the job as it is: with the plan, with the patch, and cured by hand."
    yield ""
    yield "| job | kept | plan | patch | by hand | patch |"
    yield "|---|---|--:|--:|--:|---|"
    for name, result in results.items():
        rates = result["samples_per_s"]
        gains = [_format_gain(rates.get(arm), rates["sick"]) for arm in ARMS[1:]]
        kept = ", ".join(trial["fix"] for trial in result["trials"] if trial["kept"]) or "none"
        state = result["patch_missing"] or "applied"
        yield f"| {name} | {kept} | {' | '.join(gains)} | {state} |"
    yield ""
    yield "| job | tried | consent | kept | predicted | measured | losses |"
    yield "|---|---|---|---|--:|--:|---|"
    for name, result in results.items():
        for trial in result["trials"]:
            kept = "yes" if trial["kept"] else f"no: {trial['why']}"
            yield (
                f"| {name} | {trial['fix']} | {trial['consent']} | {kept.replace('|', '/')} "
                f"| {_format_factor(trial['predicted'])} | {_format_factor(trial['speedup'])} "
                f"| {trial['numerics'] or '–'} |"
            )


def _format_gain(rate: float | None, sick: float) -> str:
    return _format_factor(rate / sick if rate else None)


def _format_factor(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}x"


STAGE = Stage("heal", "Fixes against cures by hand", list_items, table_lines)
