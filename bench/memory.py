"""How far planned memory and steps are from measured ones: ``docs/results/memory.md``.

``python bench/memory.py peaks [NAMES]``: peaks at two and four times the batch, in bfloat16 and
with modules recomputed, against the allocation events of the profiler in jobs of that setting.
``times``: steps at other batches and with modules recomputed, and the proposed batch against a
sweep; with ``MALLOC_TRIM_THRESHOLD_=100000000000 MALLOC_MMAP_THRESHOLD_=33554432`` without page
faults, whose number is another one in each process.
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
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import torch

import memory_models as jobs
from whyidle.analysis.memory_plan import MemoryPlan
from whyidle.engine.diagnosis.memory_options import OptionList
from whyidle.importers._process_facts import read_document
from whyidle.model.memory_look import MemoryLook
from whyidle.probe.frameworks.torch import repeated_pass
from whyidle.probe.frameworks.torch.step_tape import StepTape
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


def fork(work: Callable[[], object]) -> str:
    """What ``work`` returns in a process of its own, as text."""
    begin, end = os.pipe()
    if not os.fork():
        os.write(end, json.dumps(work()).encode())
        os._exit(0)
    os.close(end)
    with os.fdopen(begin) as text:
        return json.loads(text.read())


def measure_steps(name: str, batches: Sequence[int], change=bool) -> dict[int, float]:
    """CPU seconds of a step at several batches, in two turns of fresh processes: the shortest."""
    times = {size: float("inf") for size in batches}
    for _ in range(2):
        for size in batches:
            found = fork(lambda size=size: min(jobs.train(name, size, 5, change=change)[2][2:]))
            times[size] = min(times[size], found)
    return times


def look_inside(name: str) -> dict:
    """The look's measurements and the job's step, in CPU seconds of one thread, which programs
    beside it change less than the time that goes by."""
    repeated_pass.time = SimpleNamespace(perf_counter=time.process_time, monotonic=time.monotonic)
    torch.manual_seed(0)
    model, batch = jobs.build(name), jobs.BATCHES[name]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> float:
        begin = time.process_time()
        x, y = jobs.make_batch(name, batch)
        optimizer.zero_grad()
        jobs.compute_loss(name, model, x, y).backward()
        optimizer.step()
        return time.process_time() - begin

    step()
    faults = repeated_pass.count_faults()
    step()
    faults, tape = repeated_pass.count_faults() - faults, StepTape(torch)
    tape.start()
    step()
    tape.stop()
    with tempfile.TemporaryDirectory() as folder:
        look = repeated_pass.RepeatedPass(torch, tape, optimizer, f"{folder}/draft")
        begin = time.monotonic()
        look.measure()
    look.found |= {"step_fault_s": faults * look.fault_s, "kept_gradients": False}
    step_s = min(step() for _ in range(6))
    return {"look": look.found, "step_s": step_s, "taken": time.monotonic() - begin}


def compare_times(names: list[str]) -> None:
    """Print steps at two, four and eight times the batch and with modules recomputed, predicted and
    measured, each relative to the step at the job's batch, since the look runs in another process,
    and the proposed batch beside a sweep. In CPU seconds of one thread."""
    torch.set_num_threads(1)
    print("model, step now by the look and measured, ms; each setting: predicted, measured, error")
    for name in names:
        batch = jobs.BATCHES[name]
        found = fork(lambda name=name: look_inside(name))
        plan = MemoryPlan(read_document(MemoryLook, found["look"]), found["step_s"])
        options = OptionList(plan)
        best = options.best_batch.batch
        true = measure_steps(name, sorted({best, *(round(batch * 2**p) for p in range(-1, 4))}))
        rows = [(f"{n} b", plan.step_at(n * batch), true[n * batch]) for n in (2, 4, 8)]
        for option in options.build_options():
            if option.change == "recomputation":
                again = measure_steps(name, [batch], recompute(option.modules))[batch]
                rows.append((f"{len(option.modules)} again", option.step_s, again))
        now = plan.step_at(batch)
        cells = [f"{name:9} {now * 1e3:6.1f} {true[batch] * 1e3:6.1f}"]
        for what, predicted, measured in rows:
            ratio, truth = predicted / now, measured / true[batch]
            cells.append(f"{what} {ratio:.2f} {truth:.2f} {ratio / truth - 1:+.1%}")
        rates = {size: size / seconds for size, seconds in true.items()}
        top = max(rates, key=rates.get)
        cells.append(f"proposed {best}, best {top}: {rates[best] / rates[top]:.0%}")
        print("; ".join([*cells, f"look {found['taken']:.0f} s"]), flush=True)


if __name__ == "__main__":
    what, *chosen = sys.argv[1:]
    names = chosen or list(jobs.NAMES)
    if what == "peaks":
        compare_peaks(names)
    elif what == "recomputed":
        compare_peaks(names, ("recomputation",))
    elif what == "times":
        compare_times(names)
