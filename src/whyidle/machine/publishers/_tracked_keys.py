"""What experiment trackers get of a look, and of the final diagnosis."""

from __future__ import annotations

from whyidle.model.diagnosis import Diagnosis
from whyidle.model.documents.watch_document import WatchedMachine
from whyidle.model.live.metric_series import gpu_keys, stage_keys


def collect_keys(machine: WatchedMachine) -> tuple[int, dict[str, float]]:
    """The number of steps, and figures by key, of the jobs of one command. Several jobs are kept
    apart by their run."""
    keys: dict[str, float] = {}
    step = 0
    for job in machine.jobs:
        own = stage_keys(job)
        if len(machine.jobs) > 1:
            own = {f"whyidle/{job.key}/{k.removeprefix('whyidle/')}": v for k, v in own.items()}
        keys |= own
        step = max(step, job.steps.count if job.steps else 0)
    return step, {**keys, **gpu_keys(machine.gpus)}


def summarise_diagnosis(diagnosis: Diagnosis) -> dict[str, str]:
    """The verdict and the first finding, as texts."""
    verdict = diagnosis.verdict
    tags = {"whyidle.verdict": verdict.state, "whyidle.headline": verdict.headline}
    if diagnosis.findings:
        first = diagnosis.findings[0]
        tags["whyidle.cause"] = first.cause
        if first.fixes:
            tags["whyidle.fix"] = first.fixes[0].summary
    return tags
