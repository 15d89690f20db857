"""What whyidle does to a job: nothing, whatever is killed, broken or set.

Jobs make a fixed number of steps here, so that what they compute can be compared digit by digit
with the same job without whyidle.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from bench.gpu import cells
from bench.gpu.job_run import JOBS, PACE, JobError, JobRun, job_words, run_job
from bench.gpu.leash import END_S, find_descendants, start_leashed
from bench.gpu.stage import Item, SkippedError, Stage
from bench.gpu.target import ROOT, Target
from bench.gpu.twins import READS, RELEASES

SCRIPT = "tables.py"
SIZES = {
    "cuda": ("--batch", "512", "--width", "512", "--depth", "8"),
    "emulated": ("--batch", "16", "--width", "32", "--depth", "3"),
}
CHANGES = (*READS, *RELEASES)
"""the job reads, waits and empties the cache in each step, so that each of these hooks is used"""
STEPS, SHORT_STEPS = 48, 30
PAUSE_S = {"off": 0.03, "look": 0.1}
"""of each step, by profile: a burst begins after 3 s on a GPU"""
SAME = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
"""so that the same steps make the same numbers"""
RUN_S = {"off": 1.7, "look": 5.2}
"""the steps of a run"""
START_S, WATCHED_START_S, GONE_S = 5.0, 7.5, 20.0
"""what a run takes beyond its steps; how long processes may take to end when whyidle was killed"""
TRAIN_S, BEGIN_S = 6.0, 120.0
"""a job that outlives whyidle trains; how long a start may take"""
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)

FAULTS = (
    "clock.record",
    "clock.query",
    "clock.elapsed_ms",
    "clock.is_capturing",
    "spans.all",
    "profiler.start",
    "profiler.save",
    "nvml.reads",
)
SHORT_FAULTS = ("clock.record",)
SHORT = ("sigkill-job", "faults")


def run_steps(target: Target, profile: str | None, **environment: str) -> JobRun:
    """The job, with a fixed number of steps.

    Raises:
        JobError: it failed.
    """
    steps = SHORT_STEPS if target.short else STEPS
    fixed = {"PACE_STEPS": str(steps), "PACE_PAUSE_S": str(PAUSE_S[profile or "off"]), **SAME}
    return run_job(
        target,
        SCRIPT,
        SIZES[target.kind],
        profile=profile,
        changes=CHANGES,
        environment=fixed | target.counters | environment,
    )


def compare_runs(plain: JobRun, watched: JobRun) -> dict[str, Any]:
    """Whether a watched job computed what it computes alone; both ended with status 0."""
    return {
        "loss_alone": plain.loss,
        "loss_watched": watched.loss,
        "sum_of_losses_same": _read_sum(plain) == _read_sum(watched),
        "same": (plain.loss, _read_sum(plain)) == (watched.loss, _read_sum(watched)),
    }


def _read_sum(run: JobRun) -> str:
    return run.output.rpartition("sum of the losses read: ")[2].strip()


def compare_setting(target: Target, **environment: str) -> dict[str, Any]:
    """The job alone and watched, both in this environment."""
    plain = run_steps(target, None, **environment)
    watched = run_steps(target, "look", **environment)
    assert watched.diagnosis is not None
    return compare_runs(plain, watched) | {
        "devices": watched.diagnosis["device"]["count"],
        "steps_seen": watched.diagnosis["steps"]["count"],
        "utilization_ratio": watched.diagnosis["utilization"]["gpu_util"],
    }


def compare_visible(target: Target) -> dict[str, Any]:
    """The job on a device that is chosen by its UUID: that of a slice where there is MIG."""
    if target.emulated:
        raise SkippedError("the emulated device has no UUID")
    if shutil.which("nvidia-smi") is None:
        raise SkippedError("no nvidia-smi here, which lists UUIDs")
    listed = subprocess.run(
        ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=False
    )
    uuid = find_uuid(listed.stdout)
    if uuid is None:
        raise SkippedError("nvidia-smi lists no UUID")
    result = compare_setting(target, CUDA_VISIBLE_DEVICES=uuid)
    return result | {"mig": uuid.startswith("MIG-")}


def find_uuid(listed: str) -> str | None:
    """The first slice that ``nvidia-smi -L`` lists, or else the first card."""
    slices, cards = (re.findall(rf"UUID: ({kind}-[^)\s]+)\)", listed) for kind in ("MIG", "GPU"))
    return next(iter([*slices, *cards]), None)


def measure_memory(target: Target) -> dict[str, Any]:
    """Memory of the device with and without us; the burst loads CUPTI."""
    result: dict[str, Any] = {}
    for name, profile in (("alone", None), ("watched", "look")):
        run = run_steps(target, profile, PACE_MEMORY="1")
        match = re.search(r"^memory (\d+) (\d+) (\d+)$", run.output, re.M)
        if match is None:
            raise JobError("the job did not print what its memory held")
        tensors, held, used = map(int, match.groups())
        result[name] = {"tensors_bytes": tensors, "allocator_bytes": held, "device_bytes": used}
    return result


def plant_faults(target: Target) -> dict[str, Any]:
    """The job with one broken part of the probe at a time, against the job alone."""
    plain = run_steps(target, None)
    faults = SHORT_FAULTS if target.short else FAULTS
    return {fault: _plant_fault(target, plain, fault) for fault in faults}


def _fault_profile(fault: str) -> str:
    return "look" if fault.startswith("profiler") else "off"


def _plant_fault(target: Target, plain: JobRun, fault: str) -> dict[str, Any]:
    profile = _fault_profile(fault)
    environment = {"HOOK_FAULTS": fault}
    if fault == "nvml.reads":
        path = [str(ROOT / "bench/gpu/broken_nvml"), target.environment["PYTHONPATH"]]
        environment = {"PYTHONPATH": os.pathsep.join(path)}
    try:
        run = run_steps(target, profile, **environment)
    except JobError as error:  # the very harm that is looked for
        return {"same": False, "reason": str(error), "met": None, "noted": None}
    assert run.diagnosis is not None
    met = re.search(r"planted faults met: (\d+)", run.output)
    return compare_runs(plain, run) | {
        "met": int(met[1]) if met else None,
        "noted": "planted fault" in str(run.diagnosis["coverage"]),
    }


@contextmanager
def start_whyidle(
    target: Target, front: Sequence[str], seconds: float
) -> Iterator[tuple[int, Path]]:
    """The process above a command of whyidle with a job, and their folder; all of it ends here."""
    with tempfile.TemporaryDirectory(prefix="whyidle-gpu-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        copy = target.write_script(JOBS / SCRIPT, folder, CHANGES)
        words = [sys.executable, "-m", "whyidle", *front, "--no-store", "--json", "document.json"]
        words += ["--", *job_words(target, copy.name, SIZES[target.kind], seconds)]
        environment = {**target.environment, "PACE_STARTED": str(folder / "started")}
        with (folder / "output").open("w") as output:
            process, pipe = start_leashed(
                words, folder, environment, linger=folder / "status", stdout=output, stderr=output
            )
            try:
                yield process.pid, folder
            finally:
                os.close(pipe)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(2 * END_S)


def await_result(ask: Callable[[], Any], limit_s: float) -> Any:
    """The first answer that is true, or the last."""
    end = time.monotonic() + limit_s
    while not (answer := ask()) and time.monotonic() < end:
        time.sleep(0.1)
    return answer


def _find_process(root: int, text: str) -> int | None:
    found = [pid for pid, words in find_descendants(root).items() if text in words]
    return min(found, default=None)


def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def list_left(root: int, limit_s: float) -> list[str]:
    """Command lines of what still runs when the time is over; without paths."""
    await_result(lambda: not find_descendants(root), limit_s)
    return [" ".join(Path(w).name for w in c.split()[:4]) for c in find_descendants(root).values()]


def kill_job(target: Target) -> dict[str, Any]:
    """SIGKILL of the watched job: whyidle ends as the job did, and reports."""
    front = ["run", "--quiet", "--no-live", "--profile", "off"]
    with start_whyidle(target, front, 600) as (root, folder):
        pid = await_result(lambda: _read_text(folder / "started"), BEGIN_S)
        if not pid:
            raise JobError(f"the job did not start: {_read_text(folder / 'output')[-200:]}")
        time.sleep(2)
        os.kill(int(pid), signal.SIGKILL)
        begin = time.monotonic()
        status = await_result(lambda: _read_text(folder / "status"), 60)
        seconds = time.monotonic() - begin
        return {
            "status": int(status) if status else None,
            "status_right": bool(status) and int(status) in KILLED,
            "ended_after_s": round(seconds, 1) if status else None,
            "reported": (folder / "document.json").exists(),
            "left": list_left(root, GONE_S),
        }


def kill_whyidle(target: Target) -> dict[str, Any]:
    """SIGKILL of ``whyidle run``: the job trains to its end, and nothing stays behind."""
    front = ["run", "--quiet", "--no-live", "--profile", "off"]
    with start_whyidle(target, front, TRAIN_S) as (root, folder):
        if not await_result(lambda: _read_text(folder / "started"), BEGIN_S):
            raise JobError(f"the job did not start: {_read_text(folder / 'output')[-200:]}")
        pid = _find_process(root, "-m whyidle run")
        if pid is None:
            raise JobError("whyidle is not among the processes")
        os.kill(pid, signal.SIGKILL)
        finished = await_result(lambda: PACE.search(_read_text(folder / "output")), 60)
        return {"job_finished": bool(finished), "left": list_left(root, GONE_S)}


def kill_fix(target: Target) -> dict[str, Any]:
    """SIGKILL of ``whyidle fix`` during a trial: the trial ends, and nothing stays behind."""
    with start_whyidle(target, ["fix", "--quiet", "--yes", "--budget", "60s"], 600) as (root, _):
        if not await_result(lambda: _find_process(root, f"{SCRIPT} --device"), BEGIN_S):
            raise JobError("no trial started")
        await_result(lambda: len(find_descendants(root)) > 2, 10)
        time.sleep(3)
        pid = _find_process(root, "-m whyidle fix")
        if pid is None:
            raise JobError("whyidle is not among the processes")
        os.kill(pid, signal.SIGKILL)
        begin = time.monotonic()
        left = list_left(root, GONE_S)
        return {"left": left, "ended_after_s": None if left else round(time.monotonic() - begin, 1)}


def list_items(target: Target) -> list[Item]:
    """One item per kind of harm."""
    plain = RUN_S["off"] + START_S
    watched = {profile: seconds + WATCHED_START_S for profile, seconds in RUN_S.items()}
    faults = SHORT_FAULTS if target.short else FAULTS
    faulty = plain + sum(watched[_fault_profile(fault)] for fault in faults)
    items = [
        Item("sigkill-job", partial(kill_job, target), START_S + 5),
        Item("sigkill-whyidle", partial(kill_whyidle, target), START_S + TRAIN_S + 2),
        Item("sigkill-fix", partial(kill_fix, target), 2 * START_S + 5),
        Item("launch-blocking", partial(compare_setting, target, CUDA_LAUNCH_BLOCKING="1"),
             plain + watched["look"]),
        Item("visible-by-uuid", partial(compare_visible, target), plain + watched["look"]),
        Item("memory", partial(measure_memory, target), plain + watched["look"]),
        Item("faults", partial(plant_faults, target), faulty),
    ]  # fmt: skip
    return [item for item in items if not target.short or item.name in SHORT]


def table_lines(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """What was done, and what came of it."""
    yield "The job makes a fixed number of steps: its losses can be compared with the job's alone."
    yield ""
    yield "| what was done | unharmed | what was seen |"
    yield "|---|---|---|"
    for name, result in results.items():
        if name == "faults":
            yield from (_fault_line(fault, row) for fault, row in result.items())
        elif name != "memory":
            yield f"| {name} | {cells.mark(_is_unharmed(result))} | {_describe(result)} |"
    if memory := results.get("memory"):
        yield ""
        yield "| memory, MiB | tensors at most | allocator at most | device at the end |"
        yield "|---|--:|--:|--:|"
        for name, row in memory.items():
            values = " | ".join(f"{value / 2**20:.1f}" for value in row.values())
            yield f"| {name.replace('_', ' ')} | {values} |"


def _fault_line(fault: str, row: dict[str, Any]) -> str:
    met = f"met {row['met']} times before the job's end, " if row["met"] is not None else ""
    noted = "in the report" if row["noted"] else "not in the report"
    seen = row.get("reason") or met + noted
    return f"| fault in {fault} | {cells.mark(row['same'])} | {seen} |"


def _is_unharmed(result: dict[str, Any]) -> bool:
    wanted = ("same", "status_right", "job_finished", "reported")
    return not result.get("left") and all(result.get(key, True) for key in wanted)


def _describe(result: dict[str, Any]) -> str:
    if "same" in result:
        used = result["utilization_ratio"]
        return (
            f"losses {'the same' if result['same'] else 'differ'}; {result['devices']} device, "
            f"{result['steps_seen']} steps seen, "
            f"utilization {'–' if used is None else f'{used:.0%}'}"
            + ("; a MIG slice" if result.get("mig") else "")
        )
    left = ", ".join(result["left"]) or "nothing"
    parts = [f"left running: {left}"]
    if "status" in result:
        parts.append(f"status {result['status']}")
    if "job_finished" in result:
        parts.append("the job trained on" if result["job_finished"] else "the job ended with it")
    return "; ".join(parts)


STAGE = Stage("harm", "What may go wrong with it", list_items, table_lines)
