"""Ten sick jobs and three healthy ones: the first finding, its place, and its predicted gain."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from bench.gpu import cells
from bench.gpu.job_run import run_job
from bench.gpu.stage import Item, SkippedError, Stage
from bench.gpu.target import Target
from bench.gpu.twins import HEALTHY, SICK, Twin

SHORT = {"loader-without-workers", "read-in-each-step", "compute-bound"}
TRAIN_S, START_S = 4.0, 9.0
"""seconds that a run trains at most, and takes beyond that: imports, the device, the report"""


def judge_twin(target: Target, twin: Twin) -> dict[str, Any]:
    """Run the job watched, and its cured twin as it is; compare what was said with what is true."""
    if twin.needs_cuda and target.emulated:
        raise SkippedError("the emulated device has no CUDA graphs")
    environment = twin.environment(target)
    options = partial(twin.options, target)
    run = partial(run_job, target, twin.script, environment=environment, seconds=_train_s(target))
    sick = run(options(cured=False), watched=True)
    assert sick.diagnosis is not None
    findings = [f for f in sick.diagnosis["findings"] if f["severity"] != "info"]
    first = findings[0] if findings else None
    result = {
        "steps": sick.steps,
        "step_ms": sick.step_s * 1e3,
        "verdict": sick.diagnosis["verdict"]["state"],
        "first": first and first["cause"],
        "expected": list(twin.causes),
        "right": (first["cause"] in twin.causes) if first else not twin.causes,
    }
    if not twin.causes:
        return result
    cured = run(options(cured=True), watched=False)
    result |= {
        "place_right": _has_place(first, twin),
        "cured_step_ms": cured.step_s * 1e3,
        "measured_speedup": sick.sample_s / cured.sample_s,
        "predicted_speedup": first and _best_speedup(first),
    }
    return result


def _train_s(target: Target) -> float:
    return min(TRAIN_S, target.job_s)


def _best_speedup(finding: dict[str, Any]) -> dict[str, float] | None:
    """What the finding's best fix is predicted to gain, as the factor of the job's speed."""
    predictions = [fix["predicted"] for fix in finding["fixes"] if fix["predicted"]]
    best = max(predictions, key=lambda prediction: prediction["speedup"], default=None)
    return best and {key: best[key] for key in ("speedup", "low", "high")}


def _has_place(finding: dict[str, Any] | None, twin: Twin) -> bool | None:
    """Whether a finding names the line of the defect; ``None`` where the defect has no line."""
    line = twin.line_number()
    if line is None or finding is None:
        return None
    return any(
        place["file"].endswith(twin.script) and place["line"] == line
        for place in finding["where"]
        if place.get("file")
    )


def list_items(target: Target) -> list[Item]:
    """One item per job."""
    run = _train_s(target) + START_S
    return [
        Item(twin.name, partial(judge_twin, target, twin), run * (2 if twin.causes else 1))
        for twin in (*SICK, *HEALTHY)
        if not target.short or twin.name in SHORT
    ]


def table_lines(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """A row per job."""
    yield "| job | first finding | right | place | step, ms | predicted | measured by hand cure |"
    yield "|---|---|---|---|--:|--:|--:|"
    for name, result in results.items():
        yield (
            f"| {name} | {result['first'] or 'none'} | {cells.mark(result['right'])} "
            f"| {cells.mark(result.get('place_right'))} | {result['step_ms']:.2f} "
            f"| {cells.interval(result.get('predicted_speedup'))} "
            f"| {cells.factor(result.get('measured_speedup'))} |"
        )


STAGE = Stage("truth", "Jobs with a known defect", list_items, table_lines)
