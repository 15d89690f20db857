"""What watching costs a step: on against off in one process, torch.profiler beside it; bursts."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.gpu.job_run import JobError, find_recording, run_command
from bench.gpu.stage import Item, Stage
from bench.gpu.target import ROOT, Target
from bench.gpu.twins import find_twin, run_twin
from bench.overhead import Spread

STEPS_MS = (2.0, 5.0, 50.0)
WARM_STEPS, ROUND_S = 110, 6.0
START_S = 9.0
LIMIT_S = 240.0
BURST_JOB_S = 9.0
"""a burst begins after 3 s on a GPU, takes 1 s, and the steps after it are compared"""
DETACHED = {"TEARDOWN_CUPTI": "1"}
"""else CUPTI stays attached after the profiler, and what is off would not be off"""
KINDS = {"watched": "whyidle, without bursts", "profiler": "torch.profiler", "control": "control"}


def measure_step(target: Target, step_ms: float) -> dict[str, Any]:
    """Pairs of blocks at steps of about this length.

    Raises:
        JobError: the process failed or printed nothing.
    """
    seconds = _measure_s(target)
    words = [sys.executable, "-m", "whyidle", "run", "--quiet", "--no-live", "--no-store"]
    words += ["--profile", "off", "--", sys.executable, str(ROOT / "bench/gpu/overhead_blocks.py")]
    words += ["--device", target.kind, "--step-ms", str(step_ms), "--seconds", str(seconds)]
    path = os.pathsep.join([target.environment["PYTHONPATH"], str(ROOT / "bench")])
    environment = {**target.environment, "PYTHONPATH": path, **DETACHED}
    with tempfile.TemporaryDirectory(prefix="whyidle-gpu-") as folder:
        status, output, errors = run_command(words, Path(folder), environment, LIMIT_S)
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if status or not lines:
        last = (errors.strip() or output.strip()).splitlines()[-1:]
        raise JobError(f"status {status}: {' '.join(last) or 'no output'}")
    pairs = json.loads(lines[-1])
    return {
        "rows": pairs["rows"],
        "steps_per_block": pairs["steps_per_block"],
        "step_ms": statistics.median(pairs["step_ms"]),
        **{kind: {"added_percent": pairs[kind], **_summarize_pairs(pairs[kind])} for kind in KINDS},
    }


def _measure_s(target: Target) -> float:
    return 1.0 if target.short else target.job_s


def _summarize_pairs(values: list[float]) -> dict[str, Any]:
    """Median and its standard error, as ``bench/overhead.py`` has them; no error of few pairs."""
    if len(values) < 4:
        return {"median_percent": statistics.median(values), "error_percent": None}
    spread = Spread.quartiles(values)
    error = 1.2533 / 1.349 * (spread.high - spread.low) / len(values) ** 0.5
    return {"median_percent": spread.median, "error_percent": error}


def measure_bursts(target: Target) -> dict[str, Any]:
    """What bursts cost a job that is bound by computing, by whyidle's own account."""
    with tempfile.TemporaryDirectory(prefix="whyidle-gpu-") as name:
        store = Path(name) / "store"
        run_twin(
            target, find_twin("compute-bound"), profile="look", seconds=BURST_JOB_S,
            store=store,
        )  # fmt: skip
        logs = list(find_recording(store).glob("*.bursts.json"))
        if len(logs) != 1:
            raise JobError(f"{len(logs)} processes wrote of bursts, not one")
        log = json.loads(logs[0].read_text(encoding="utf-8"))
    keys = ("state", "steps", "before_s", "during_s", "after_s", "stop_s", "cost_s")
    return {
        "bursts": [{key: burst.get(key) for key in keys} for burst in log["bursts"]],
        "spent_s": log["spent_s"],
        "off": log["off"],
    }


def list_items(target: Target) -> list[Item]:
    """One item per length of a step, and the bursts."""
    lengths = STEPS_MS[1:2] if target.short else STEPS_MS
    items = [
        Item(f"steps-of-{length:g}-ms", partial(measure_step, target, length), cost_s)
        for length in lengths
        for cost_s in [_measure_s(target) + START_S + WARM_STEPS * length / 1e3 + ROUND_S]
    ]
    if not target.short:
        items.append(Item("bursts", partial(measure_bursts, target), BURST_JOB_S + START_S))
    return items


def table_lines(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """What each instrument adds to the mean step, then each burst."""
    yield (
        "On and off in turns inside one process, in blocks of a fixed number of steps between two "
        "waits for the device; median over pairs of blocks and its standard error. The control is "
        "nothing against nothing. Bursts are apart."
    )
    yield ""
    pairs = {name: result for name, result in results.items() if name != "bursts"}
    if pairs:
        yield "| instrument | steps of, ms | added to the mean step | pairs |"
        yield "|---|--:|--:|--:|"
        yield from (line for result in pairs.values() for line in _pair_lines(result))
    if pairs and "bursts" in results:
        yield ""
    if log := results.get("bursts"):
        yield from _burst_lines(log)


def _pair_lines(result: dict[str, Any]) -> Iterator[str]:
    for kind, title in KINDS.items():
        error = result[kind]["error_percent"]
        yield (
            f"| {title} | {result['step_ms']:.2f} | {result[kind]['median_percent']:+.2f} % "
            f"± {'–' if error is None else f'{error:.2f}'} "
            f"| {len(result[kind]['added_percent'])} |"
        )


def _burst_lines(log: dict[str, Any]) -> Iterator[str]:
    if log["bursts"]:
        yield "| burst | steps | before, ms | during, ms | after, ms | cost in all, s |"
        yield "|---|--:|--:|--:|--:|--:|"
    for burst in log["bursts"]:
        lengths = " | ".join(
            "–" if burst[key] is None else f"{1e3 * burst[key]:.2f}"
            for key in ("before_s", "during_s", "after_s")
        )
        yield f"| {burst['state']} | {burst['steps']} | {lengths} | {burst['cost_s']:.2f} |"
    yield ""
    yield f"{'No further' if log['bursts'] else 'No'} burst: {log['off'] or 'the job ended'}."


STAGE = Stage("overhead", "What watching costs", list_items, table_lines)
