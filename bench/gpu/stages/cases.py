"""Two case studies: an image classifier made fast unattended, and a language model against what
this machine could reach."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bench.gpu.fix_run import LONG_S, describe_trial, list_kept, run_fix
from bench.gpu.job_run import JOBS, JobRun, job_words, run_job
from bench.gpu.stage import Item, Stage
from bench.gpu.stages.heal import AFTER_S, budget_s
from bench.gpu.target import Target

IMAGES, LANGUAGE = "images.py", "language.py"
CLASSIFIER = {
    "cuda": ("--batch", "128", "--size", "128", "--width", "256", "--depth", "4"),
    "emulated": ("--batch", "8", "--size", "24", "--width", "4"),
}
WORKERS = {"cuda": 2, "emulated": 1}
SIZES = {
    "cuda": ("--depth", "8", "--accumulate", "2"),
    "emulated": ("--batch", "2", "--length", "16", "--width", "16", "--depth", "2", "--heads", "2",
                 "--vocabulary", "64", "--workers", "1"),
}  # fmt: skip
SLOW = {"WHYIDLE_EMULATED": json.dumps({"peak_flops": 3e7})}
"""the emulated device is slower than the host, or nothing could make it busy"""
LOADS = (2, 8)
"""work per picture at which the loader is timed alone"""
LATE = 1.8
"""how much longer than the device's step a batch shall take to load: utilization is about half"""
TIMED_S, RUN_S, START_S = 2.0, 6.0, 6.5
"""seconds that a calibration trains, that a watched case trains, and that a start takes"""
ALONE_S = 4.0
"""seconds that the language model trains without whyidle"""
SIGNALS = ("gpu_util", "sm_active", "tensor_active")


def find_work(target: Target) -> dict[str, Any]:
    """How much work per picture keeps the device waiting for about half of the time."""
    seconds, environment = min(TIMED_S, target.job_s), _device_settings(target)
    timed = partial(run_job, target, IMAGES, profile=None, seconds=seconds, environment=environment)
    base = [*CLASSIFIER[target.kind], "--workers", str(WORKERS[target.kind])]
    device_s = timed([*base, "--resident", "--work", "0"]).step_s
    light, heavy = (timed([*base, "--loader-only", "--work", str(n)]).step_s for n in LOADS)
    unit_s = (heavy - light) / (LOADS[1] - LOADS[0])
    rest_s = LATE * device_s - (light - LOADS[0] * unit_s)
    work = max(0, round(rest_s / unit_s)) if unit_s > 0 else LOADS[1]
    return {"device_step_ms": device_s * 1e3, "unit_ms": unit_s * 1e3, "work": work}


def study_classifier(target: Target) -> dict[str, Any]:
    """Utilization and speed before ``whyidle fix`` and with the plan that it wrote."""
    calibration = find_work(target)
    options = [*CLASSIFIER[target.kind], "--workers", str(WORKERS[target.kind])]
    options += ["--work", str(calibration["work"])]
    before = watch_job(target, IMAGES, options, "off")
    with tempfile.TemporaryDirectory(prefix="whyidle-gpu-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        copy = target.write_script(JOBS / IMAGES, folder / "job")
        document = run_fix(
            job_words(target, copy.name, options, LONG_S),
            folder / "job",
            folder,
            {**target.environment, **_device_settings(target)},
            budget_s=budget_s(target),
        )
        plan = folder / "plan.toml"
        after = watch_job(target, IMAGES, options, "off", plan) if plan.exists() else None
    return {
        "calibration": calibration,
        "cores": len(os.sched_getaffinity(0)),
        "before": describe_run(before),
        "after": after and describe_run(after),
        "trials": [describe_trial(trial) for trial in document["trials"]],
    }


def study_language(target: Target) -> dict[str, Any]:
    """Tokens per second of the job, and of its steps on tokens that are on the device."""
    options = list(SIZES[target.kind])
    job = watch_job(target, LANGUAGE, options, "look")
    alone, ideal = (
        run_job(
            target,
            LANGUAGE,
            [*options, *more],
            profile=None,
            seconds=min(ALONE_S, target.job_s),
            environment=_device_settings(target),
        )
        for more in ([], ["--ideal"])
    )
    assert job.diagnosis is not None
    findings = [row for row in job.diagnosis["findings"] if row["severity"] != "info"]
    return {
        "job": describe_run(job),
        "alone_tokens_per_s": 1 / alone.sample_s,
        "ideal_tokens_per_s": 1 / ideal.sample_s,
        "first": findings[0]["cause"] if findings else None,
    }


def watch_job(
    target: Target, script: str, options: list[str], profile: str, plan: Path | None = None
) -> JobRun:
    """The job under ``whyidle run``; with the profile ``look`` a burst takes a part of its time."""
    return run_job(
        target,
        script,
        options,
        profile=profile,
        seconds=min(RUN_S, target.job_s),
        environment=_device_settings(target),
        plan=plan,
    )


def _device_settings(target: Target) -> Mapping[str, str]:
    return {**target.counters, **SLOW} if target.emulated else {}


def describe_run(run: JobRun) -> dict[str, Any]:
    """Speed, and what telemetry and events say of the device; unknown is None."""
    assert run.diagnosis is not None
    used = run.diagnosis["utilization"]
    ratios = {f"{signal}_ratio": used[signal] for signal in SIGNALS}
    ratios["compute_ratio"] = run.diagnosis["attribution"]["compute"]
    return {"step_ms": run.step_s * 1e3, "samples_per_s": 1 / run.sample_s, **ratios}


def list_items(target: Target) -> list[Item]:
    """The two studies; a short rehearsal has the second, as ``heal`` has ``fix`` already."""
    run = min(RUN_S, target.job_s) + START_S
    cost = 3 * (TIMED_S + START_S) + 2 * run + budget_s(target) + AFTER_S
    items = [
        Item("image-classifier", partial(study_classifier, target), cost),
        Item("language-model", partial(study_language, target), run + 2 * (ALONE_S + START_S)),
    ]
    return items[1:] if target.short else items


def table_lines(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Each study with its own table."""
    if study := results.get("image-classifier"):
        yield from _classifier_lines(study)
    if study := results.get("language-model"):
        if "image-classifier" in results:
            yield ""
        yield from _language_lines(study)


HEAD = "utilization | SM active | tensor active | computing, by events"


def _classifier_lines(study: dict[str, Any]) -> Iterator[str]:
    calibration = study["calibration"]
    yield (
        f"An image classifier whose loader has {study['cores']} cores to grow on. Work per picture "
        f"was set so that loading takes about {LATE} times the device's "
        f"{calibration['device_step_ms']:.1f} ms; then `whyidle fix` had it alone."
    )
    yield ""
    yield f"| classifier | samples per s | {HEAD} |"
    yield "|---|--:|--:|--:|--:|--:|"
    yield f"| before | {_run_cells(study['before'])} |"
    if study["after"]:
        yield f"| with the plan of `fix` | {_run_cells(study['after'])} |"
        gain = study["after"]["samples_per_s"] / study["before"]["samples_per_s"]
        yield ""
        yield f"{gain:.2f} times as fast. Kept: {list_kept(study['trials']) or 'nothing'}."
    else:
        yield ""
        yield "`fix` kept nothing, so there is no plan."


def _language_lines(study: dict[str, Any]) -> Iterator[str]:
    job, alone, ideal = (study[key] for key in ("job", "alone_tokens_per_s", "ideal_tokens_per_s"))
    yield (
        "A language model with bf16 and accumulated gradients. *Watched*: with a burst, which "
        "takes a part of the time. *Alone*: without whyidle. "
        "*Ideal*: the same steps on tokens that are on the device, with no loader and no read."
    )
    yield ""
    yield f"| language model | tokens per s | {HEAD} |"
    yield "|---|--:|--:|--:|--:|--:|"
    yield f"| watched | {_run_cells(job)} |"
    yield f"| alone | {alone:.0f} | – | – | – | – |"
    yield f"| ideal | {ideal:.0f} | – | – | – | – |"
    yield ""
    yield (
        f"The job alone reaches {alone / ideal:.0%} of the ideal. "
        f"First finding: {study['first'] or 'none'}."
    )


def _run_cells(row: dict[str, Any]) -> str:
    values = [row[f"{signal}_ratio"] for signal in (*SIGNALS, "compute")]
    cells = ["–" if value is None else f"{value:.0%}" for value in values]
    return " | ".join([f"{row['samples_per_s']:.0f}", *cells])


STAGE = Stage("cases", "Case studies", list_items, table_lines)
