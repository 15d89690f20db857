"""Ten sick jobs and three healthy ones: the first finding, its place, and its predicted gain."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from bench.gpu import cells
from bench.gpu.stage import Item, SkippedError, Stage, StageResult
from bench.gpu.target import Target
from bench.gpu.twins import HEALTHY, SICK, Twin, find_twin, run_twin

SHORT = {"fp32", "compute-bound"}
TIMED_S = 2.0
"""seconds that a job trains without whyidle, at most"""
WATCHED_START_S, START_S = 8.0, 5.0
"""seconds of a run beyond its training, with whyidle's report and without: imports, the device"""


def judge_twin(target: Target, twin: Twin) -> dict[str, Any]:
    """Run the job watched, and both twins without whyidle, as a burst would count in the pace;
    compare what was said with what is true."""
    if twin.needs_cuda and target.emulated:
        raise SkippedError("the emulated device has no CUDA graphs")
    sick = run_twin(target, twin, profile="look")
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
    rates = time_twins(target, twin)
    return result | {
        "place_right": _has_place(first, twin),
        "samples_per_s": rates,
        "measured_speedup": rates["cured"] / rates["sick"],
        "predicted_speedup": first and _best_speedup(first),
    }


def time_twins(target: Target, twin: Twin) -> dict[str, float]:
    """Samples per second of the sick and of the cured job, without whyidle."""
    seconds = min(TIMED_S, target.job_s)
    return {
        name: 1
        / run_twin(target, twin, cured=name == "cured", profile=None, seconds=seconds).sample_s
        for name in ("sick", "cured")
    }


def find_rates(target: Target, name: str) -> dict[str, float]:
    """What ``time_twins`` has found already on this device, or finds now."""
    known = StageResult.load("truth", target, target.out).items.get(name, {})
    rates: dict[str, float] | None = known.get("result", {}).get("samples_per_s")
    return rates or time_twins(target, find_twin(name))


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
    watched = target.job_s + WATCHED_START_S
    timed = 2 * (min(TIMED_S, target.job_s) + START_S)
    return [
        Item(twin.name, partial(judge_twin, target, twin), watched + timed * bool(twin.causes))
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
