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
ARMS = ("sick", "planned", "patched", "cured")


def heal_twin(target: Target, twin: Twin) -> dict[str, Any]:
    """Fix a sick job, then time it as it is, with the plan, with the patch, and cured by hand."""
    options = twin.options(target, cured=False)
    environment = target.environment | twin.environment(target) | target.counters
    with tempfile.TemporaryDirectory(prefix="whyidle-gpu-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        copy = target.write_script(JOBS / twin.script, folder / "job")
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
        rates = {}
        for arm in ARMS:
            if (arm == "planned" and not plan.exists()) or (arm == "patched" and reason):
                continue
            home = folder / "patched" if arm == "patched" else folder / "job"
            chosen = twin.options(target, cured=True) if arm == "cured" else options
            words = job_words(target, copy.name, chosen, min(ARM_S, target.job_s))
            front = watch_words("off", plan=plan) if arm == "planned" else []
            rates[arm] = 1 / run_timed([*front, *words], home, environment, SPARE_S).sample_s
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
        gains = [cells.factor(rates[a] / rates["sick"] if a in rates else None) for a in ARMS[1:]]
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
