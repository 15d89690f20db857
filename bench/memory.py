"""How far planned memory and steps are from measured ones.

``python bench/memory.py peaks [NAMES]``: peaks at two and four times the batch, in bfloat16 and
with modules recomputed, against the allocation events of the profiler in jobs of that setting.
``times``: steps at other batches and with modules recomputed, and the proposed batch against a
sweep; *unseen* are predictions without the times of batches above half of it. ``KEEP=FOLDER`` keeps
what the looks found.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import torch
from torch.utils.checkpoint import checkpoint

import memory_models as jobs
from whyidle.analysis.memory_plan import MemoryPlan
from whyidle.engine.diagnosis.memory_options import OptionList
from whyidle.importers._process_facts import read_document
from whyidle.model.memory_look import MemoryLook as Look
from whyidle.probe.frameworks.torch import repeated_pass, step_marks
from whyidle.probe.frameworks.torch.memory_look import MemoryLook

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

    def change(model) -> None:
        for module in map(model.get_submodule, names):
            module.forward = partial(checkpoint, module.forward, use_reentrant=False)

    return change


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


ROUNDS, LOOKS, STEADY_S = 10, 3, 0.2
"""turns of all settings (half as many where one takes a second), looks before them, and seconds of
a turn"""


class Worker:
    """A fresh process that makes steps of one setting when it is asked to."""

    def __init__(self, name: str, batch: int, change: Callable) -> None:
        ask, self.asked = os.pipe()
        self.told, tell = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(self.asked)
            os.close(self.told)
            self._answer(jobs.step_durations(name, batch, change), ask, tell)
        os.close(ask)
        os.close(tell)

    def _answer(self, durations, ask: int, tell: int) -> None:
        while os.read(ask, 1):
            os.write(tell, json.dumps(next(durations)).encode())
        os._exit(0)

    def step(self) -> float:
        """CPU seconds of the next step."""
        os.write(self.asked, b".")
        return json.loads(os.read(self.told, 100))

    def end(self) -> None:
        """End the process."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def time_in_turns(name: str, settings: Sequence[tuple[int, Callable]]) -> list[float]:
    """The step of each setting (batch, and what changes the model), s: each in a process of its
    own, some steps of each in turn, so that what runs beside them, other programs above all, is the
    same for all. Of a turn the median of its second half counts: the first steps find the caches
    of another process. Of the turns the lower quartile, as others only make steps longer."""
    workers = [Worker(name, *setting) for setting in settings]
    times: list[list[float]] = [[] for _ in settings]
    rounds = ROUNDS if sum(worker.step() for worker in workers) < 1.0 else ROUNDS // 2
    for number in range(1 + rounds):
        for worker, found in zip(workers, times, strict=True):
            steps = [worker.step(), worker.step()]
            while sum(steps) < STEADY_S:
                steps.append(worker.step())
            if number:
                found.append(statistics.median(steps[len(steps) // 2 :]))
    for worker in workers:
        worker.end()
    return [statistics.quantiles(found, n=4)[0] for found in times]


def look_inside(name: str) -> dict:
    """The look's measurements and the job's step, in CPU seconds of one thread, which programs
    beside it change less than the time that goes by."""
    clock = SimpleNamespace(perf_counter=time.process_time, monotonic=time.monotonic)
    repeated_pass.time = step_marks.time = clock
    with tempfile.TemporaryDirectory() as folder:
        recorder = SimpleNamespace(facts={}, documents={}, file_path=lambda _: f"{folder}/draft")
        events = SimpleNamespace(
            recorder=recorder, lead=None, run_contained=lambda _, work, *args: work(*args)
        )
        look, begin = MemoryLook(events), time.monotonic()

        def end_step(optimizer: torch.optim.Optimizer) -> None:
            events.lead = id(optimizer)
            look.on_step(optimizer)

        steps = jobs.step_durations(name, jobs.BATCHES[name], end_step=end_step)
        times = [next(steps) for _ in range(20)]
        return {
            "look": recorder.documents[look.document],
            "step_s": statistics.median(times[4:]),
            "taken": time.monotonic() - begin,
        }


def compare_times(names: list[str]) -> None:
    """Print steps at two, four and eight times the batch and with modules recomputed, predicted and
    measured, each relative to the step at the job's batch, since the look runs in another process,
    and the proposed batch beside a sweep. In CPU seconds of one thread."""
    torch.set_num_threads(1)
    print("model, step now by the look and measured, ms; each setting: predicted, measured, error")
    for name in names:
        batch = jobs.BATCHES[name]
        plans = [read_plan(fork(lambda name=name: look_inside(name))) for _ in range(LOOKS)]
        options = [OptionList(plan) for plan in plans]
        again = {
            " ".join(one.modules): recompute(one.modules)
            for one in options[0].build_options()
            if one.change == "recomputation"
        }
        sizes = {round(batch * 2 ** (power / 2)) for power in range(-2, 7, 2)}
        sizes |= {one.best_batch.batch for one in options}
        settings = [(size, "") for size in sorted(sizes)] + [(batch, names) for names in again]
        seconds = time_in_turns(name, [(size, again.get(names, bool)) for size, names in settings])
        print(describe_times(name, plans, dict(zip(settings, seconds, strict=True))), flush=True)


def read_plan(found: dict) -> MemoryPlan:
    """The predictions of a look."""
    if keep := os.environ.get("KEEP"):
        Path(keep, f"look-{time.time_ns()}.json").write_text(json.dumps(found))
    return MemoryPlan(read_document(Look, found["look"]), found["step_s"])


def describe_unseen(plans: list[MemoryPlan], size: int, true: float) -> str:
    """The errors of looks that timed no more than half of a batch, the smallest first."""
    errors = []
    for plan in plans:
        known = tuple(row for row in plan.look.times if row[0] <= size // 2)
        faults = tuple(row for row in plan.look.fault_times if row[0] <= size // 2)
        less = replace(plan, look=replace(plan.look, times=known, fault_times=faults))
        errors.append(less.step_at(size) / less.step_at(plan.look.batch) / true - 1)
    return " ".join(f"{error:+.1%}" for error in sorted(errors))


def describe_times(name, plans, true) -> str:
    """Predicted and measured times of a model, relative to the step now, and each look's error."""
    batch = jobs.BATCHES[name]
    now = true[batch, ""]
    timed = "+".join(str(size // batch) for size in plans[0].pass_times)
    text = [f"{name:9} {plans[0].step_at(batch) * 1e3:6.1f} {now * 1e3:6.1f} (timed {timed} b)"]
    for (size, modules), seconds in true.items():
        chosen = [[name for name, _ in plans[0].look.modules].index(m) for m in modules.split()]
        ratios = [plan.step_at(size, chosen) / plan.step_at(batch) for plan in plans]
        errors = [ratio * now / seconds - 1 for ratio in ratios]
        what = f"{len(chosen)} again" if chosen else f"{size / batch:.3g} b"
        if size >= 4 * batch and size % batch == 0:
            text.append(f"{what} unseen {describe_unseen(plans, size, seconds / now)}")
        errors = " ".join(f"{error:+.1%}" for error in sorted(errors))
        text.append(f"{what} {statistics.median(ratios):.2f} {seconds / now:.2f} ({errors})")
    rates = {size: size / seconds for (size, modules), seconds in true.items() if not modules}
    top = max(rates, key=rates.get)
    for plan in plans:
        best = OptionList(plan).best_batch.batch
        share = rates.get(best, 0.0) / rates[top]
        text.append(f"proposed {best}, best {top}: {share:.0%}")
    return "; ".join(text)


if __name__ == "__main__":
    what, *chosen = sys.argv[1:]
    names = chosen or list(jobs.NAMES)
    if what == "peaks":
        compare_peaks(names)
    elif what == "recomputed":
        compare_peaks(names, ("recomputation",))
    elif what == "times":
        compare_times(names)
