"""How far planned memory and steps are from measured ones: ``docs/results/memory.md``.

``python bench/memory.py peaks [NAMES]``: peaks at two and four times the batch, in bfloat16 and
with modules recomputed, against the allocation events of the profiler in jobs of that setting.
``times``: steps at four times the batch, and the batch that is proposed against a sweep.
"""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import memory_models as jobs
from whyidle.analysis.memory_plan import MemoryPlan
from whyidle.engine.diagnosis.memory_options import OptionList
from whyidle.model.memory_look import MemoryLook, RecordedPass
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


def step_seconds(name: str, batch: int, *, change=bool) -> float:
    """CPU seconds of a step in one thread, the median of three after two."""
    return statistics.median(jobs.train(name, batch, 5, change=change)[2][2:])


def compare_times(names: list[str]) -> None:
    """Print predicted and measured steps at four times the batch, and the proposed batch beside a
    sweep, in CPU seconds of one thread, which other programs of the machine hardly change."""
    torch.set_num_threads(1)
    print("model      step at 4 b: predicted, measured ms, error; proposed batch (b): rate of best")
    for name in names:
        batch = jobs.BATCHES[name]
        turns = [(size, step_seconds(name, size)) for _ in range(2) for size in (batch, 2 * batch)]
        recorded = tuple(
            RecordedPass(size, rows=((0, 1, 1), (1, 1, -1))) for size in (batch, 2 * batch)
        )
        now = statistics.mean(seconds for size, seconds in turns if size == batch)
        look = MemoryLook(batch=batch, times=tuple(turns), replays=recorded)
        plan = MemoryPlan(look, step_s=now)
        best = OptionList(plan).best_batch.batch
        sizes = sorted({best, *(round(batch * 2**power) for power in (-1, 0, 1, 2))})
        rates = {size: size / step_seconds(name, size) for size in sizes}
        measured, predicted = 4 * batch / rates[4 * batch], plan.step_at(4 * batch)
        share, error = rates[best] / max(rates.values()), predicted / measured - 1
        row = f"{name:10} {predicted * 1e3:8.1f} {measured * 1e3:8.1f} {error:+7.1%}"
        print(f"{row}   {best:4} ({batch}): {share:.0%}", flush=True)


if __name__ == "__main__":
    what, *chosen = sys.argv[1:]
    names = chosen or list(jobs.NAMES)
    if what == "peaks":
        compare_peaks(names)
    elif what == "recomputed":
        compare_peaks(names, ("recomputation",))
    elif what == "times":
        compare_times(names)
