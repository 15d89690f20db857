"""How far planned memory and steps are from measured ones: ``docs/results/memory.md``.

``python bench/memory.py peaks [NAMES]``: peaks at two and four times the batch, in bfloat16 and
with modules recomputed, against the allocation events of the profiler in jobs of that setting.
``times``: steps at four times the batch, and the batch that is proposed against a sweep.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

import memory_models as jobs
from whyidle.probe.knobs._module_recomputation import recompute_modules

HERE = Path(__file__).parent
REAL_STEPS = 6
CHANGES = ("batch", "precision", "recomputation")


def look(name: str, folder: Path, steps: int = REAL_STEPS) -> dict:
    """The memory section of a run with ``--look memory``."""
    out = folder / f"{name}.json"
    script = [str(HERE / "memory_models.py"), name, str(jobs.BATCHES[name]), str(steps)]
    command = [sys.executable, "-m", "whyidle", "run", "-q", "--no-store", "--look", "memory"]
    command += ["--json", str(out), "--", sys.executable, *script]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return json.loads(out.read_text())


def true_peak(name: str, batch: int, *, narrow: bool = False, change=bool) -> int:
    """The peak of three steps by the profiler's events, from before the model is built."""
    gc.collect()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, acc_events=True
    ) as profiler:
        jobs.train(name, batch, 3, narrow=narrow, change=change)
        gc.collect()
    rows = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    level = peak = 0
    for event in sorted(rows, key=lambda e: e.start_ns()):
        level += event.nbytes()
        peak = max(peak, level)
    return peak


def recompute(names: list[str]):
    """What recomputes modules in a model."""
    return lambda model: recompute_modules(model, names)


def compare_peaks(names: list[str], changes: tuple[str, ...] = CHANGES) -> None:
    """Print predicted and true peaks."""
    print(f"{'model':10} {'setting':24} {'predicted':>10} {'true':>10}  error")
    errors = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            account = look(name, Path(folder))["memory"]
        batch = jobs.BATCHES[name]
        if account["unknown"][:1] and account["peak"] is None:
            print(name, account["unknown"])
            continue
        cases = [("now", account["peak"], true_peak(name, batch))]
        for option in account["options"]:
            if option["change"] not in changes:
                continue
            if option["change"] == "batch" and option["batch"] > batch:
                true = true_peak(name, option["batch"])
            elif option["change"] == "precision":
                true = true_peak(name, batch, narrow=True)
            elif option["change"] == "recomputation":
                true = true_peak(name, batch, change=recompute(option["modules"]))
            else:
                continue
            cases.append((option["summary"], option["peak"], true))
        for setting, predicted, true in cases:
            error = predicted / true - 1
            errors.append(error)
            print(
                f"{name:10} {setting:24} {predicted / 1e6:10.2f} {true / 1e6:10.2f} {error:+7.1%}"
            )
    within = sum(abs(error) <= 0.1 for error in errors)
    print(
        f"{within} of {len(errors)} within 10 %, median {statistics.median(map(abs, errors)):.2%}"
    )


def step_seconds(name: str, batch: int, steps: int = 6, names: Sequence[str] = ()) -> float:
    """Seconds of a step in a fresh process, the shortest after two, modules recomputed by name."""
    begin, end = os.pipe()
    if not (child := os.fork()):
        change = recompute(list(names)) if names else bool
        times = jobs.train(name, batch, steps, change=change)[2]
        os.write(end, str(min(times[2:])).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(end)
    with os.fdopen(begin) as text:
        return float(text.read())


def measure_steps(name: str, batches: Sequence[int], names: Sequence[str] = ()) -> dict[int, float]:
    """Steps of several batches, in two turns, the shorter ones."""
    turns = [{size: step_seconds(name, size, names=names) for size in batches} for _ in range(2)]
    return {size: min(turn[size] for turn in turns) for size in batches}


def compare_times(names: list[str]) -> None:
    """Print steps at four and eight times the batch and with modules recomputed, predicted and
    measured, each relative to the step at the job's batch, since the look runs in another process,
    and the proposed batch beside a sweep. In one thread, each measured job in a fresh process."""
    print(
        "model      step of now, ms; predicted, measured, error at 4 b, 8 b; recomputed; proposed"
    )
    for name in names:
        batch = jobs.BATCHES[name]
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            document = look(name, Path(folder), steps=30)
            taken = time.perf_counter() - begin
        account = document["memory"]
        steps = {o["batch"]: o["step_s"] for o in account["options"] if o["change"] == "batch"}
        sizes = sorted({round(batch * 2 ** (half / 2)) for half in range(-2, 7)})
        true = measure_steps(name, sizes)
        now = steps[batch]
        steps[8 * batch] = 3 * steps[4 * batch] - 2 * steps[2 * batch]  # along the same line
        best = account["best_batch"]["batch"]
        rates = {size: size / seconds for size, seconds in true.items()}
        cells = [f"{name:10} {now * 1e3:7.1f} {true[batch] * 1e3:7.1f}"]
        rows = [(f"{times} b", steps[times * batch], true[times * batch]) for times in (2, 4, 8)]
        for option in account["options"]:
            if option["change"] == "recomputation":
                again = measure_steps(name, [batch], option["modules"])
                rows.append((f"{len(option['modules'])} again", option["step_s"], again[batch]))
        for what, predicted, measured in rows:
            ratio, truth = predicted / now, measured / true[batch]
            cells.append(f"{what} {ratio:.2f} {truth:.2f} {ratio / truth - 1:+.1%}")
        share = rates[best] / max(rates.values())
        cells.append(f"{best} of {max(rates, key=rates.get)}: {share:.0%}; run {taken:.0f} s")
        print("; ".join(cells), flush=True)


if __name__ == "__main__":
    what, *chosen = sys.argv[1:]
    names = chosen or list(jobs.NAMES)
    if what == "peaks":
        compare_peaks(names)
    elif what == "recomputed":
        compare_peaks(names, ("recomputation",))
    elif what == "times":
        compare_times(names)
