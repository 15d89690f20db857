"""What ``whyidle fix`` makes of a sick job, against the same job cured by hand.

The plan and the patch that ``fix`` wrote are both used as a user would: the plan on the script as
it is, the patch on a copy of it that runs without whyidle.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.gpu import cells
from bench.gpu.fix_run import LONG_S, describe_trial, list_kept, run_fix
from bench.gpu.job_run import JOBS, job_words, run_command, run_timed, watch_words
from bench.gpu.stage import Item, Stage
from bench.gpu.stages.truth import START_S, TIMED_S, find_rates
from bench.gpu.target import Target
from bench.gpu.twins import Twin, find_twin

NAMES = (
    "loader-without-workers",
    "pageable-copies",
    "fp32",
    "unfused-optimizer",
    "allocator-churn",
)
SHORT = ("fp32",)
GPU_BUDGET_S, EMULATED_BUDGET_S, SHORT_BUDGET_S = 50.0, 120.0, 40.0
"""of ``fix``; a machine for rehearsals has few cores, and starts jobs slowly"""
AFTER_S = 20.0
"""what follows the trials: the job is watched with what was kept, and the patched files are run"""
SPARE_S = 120.0
"""seconds that a command may take beyond its training"""
ARMS = ("planned", "patched")


def heal_twin(target: Target, twin: Twin) -> dict[str, Any]:
    """Fix a sick job, then time it with the plan, and with the patch; as it is and cured by hand
    it was timed by the stage ``truth``."""
    options = twin.options(target, cured=False)
    environment = target.environment | twin.environment(target) | target.counters
    with tempfile.TemporaryDirectory(prefix="whyidle-gpu-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        changes = twin.script_changes(cured=False)
        copy = target.write_script(JOBS / twin.script, folder / "job", changes)
        document = run_fix(
            job_words(target, copy.name, options, LONG_S),
            folder / "job",
            folder,
            environment,
            consent=twin.consent,
            budget_s=budget_s(target),
        )
        plan, patch = folder / "plan.toml", folder / "fix.patch"
        reason = apply_patch(patch, folder / "job", folder / "patched")
        words = job_words(target, copy.name, options, min(TIMED_S, target.job_s))
        commands = {
            "planned": ([*watch_words("off", plan=plan), *words], "job", plan.exists()),
            "patched": (words, "patched", not reason),
        }
        rates = find_rates(target, twin.name) | {
            arm: 1 / run_timed(command, folder / home, environment, SPARE_S).sample_s
            for arm, (command, home, exists) in commands.items()
            if exists
        }
        return {
            "trials": [describe_trial(trial) for trial in document["trials"]],
            "said": document["said"],
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


def list_items(target: Target) -> list[Item]:
    """One item per job."""
    timed = len(ARMS) * (min(TIMED_S, target.job_s) + START_S)
    cost = budget_s(target) + AFTER_S + timed
    return [
        Item(name, partial(heal_twin, target, find_twin(name)), cost)
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
        gains = [
            cells.factor(rates[arm] / rates["sick"] if arm in rates else None)
            for arm in (*ARMS, "cured")
        ]
        kept = list_kept(result["trials"]) or "none"
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
                f"| {cells.factor(trial['predicted'])} | {cells.factor(trial['speedup'])} "
                f"| {trial['numerics'] or '–'} |"
            )


STAGE = Stage("heal", "Fixes against cures by hand", list_items, table_lines)
