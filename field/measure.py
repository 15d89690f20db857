"""What removing the flaw of a job gains: the job timed against its cured twin, in turns."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from field.processes import JobError, JobRun, run_job, scratch_folder, split_command
from field.truth import Job

CLEAR = 2.5
"""a gain that one pair of runs shows well enough; the clinic's rule"""
PAIRS = 3
FOREIGN = 0.15
"""share of the cores that others may use during a run: a ratio of interleaved runs moves by less
than their spread"""
ATTEMPTS = 3
"""runs that others disturb are repeated so often"""
PASSIVE = {"OMP_WAIT_POLICY": "passive"}
"""threads that wait for others sleep, so that the main thread's seconds are work"""
THREAD_CLOCK = Path(__file__).parent / "thread_clock.py"
TOLERANCE = 0.02
"""results of twins agree where they differ by less: sums in another order, and rounding of print"""


def measure_job(
    job: Job, python: str, pairs: int | None, say: Callable[[str], None], *, busy: bool = False
) -> Job:
    """The same job with its gain; by seconds of the main thread on a ``busy`` machine. Raises
    JobError where a run fails, twins disagree, or the machine does other work."""
    ratios: list[float] = []
    seconds: list[float] = []
    with scratch_folder() as folder:
        words = [split_command(command, python) for command in (job.command, job.cured_command)]
        runs = [partial(run_job, arm, folder) for arm in words]
        if busy:
            runs = [partial(run_job, _with_thread_clock(arm), folder, PASSIVE) for arm in words]
        while len(ratios) < (pairs or (1 if ratios and ratios[0] >= CLEAR else PAIRS)):
            sick, cured = (run() if busy else _run_undisturbed(run) for run in runs)
            if job.results == "equal" and not agree(sick.results, cured.results):
                raise JobError(f"twins disagree: {sick.results} and {cured.results}")
            seconds.append(seconds_of(job, sick))
            ratios.append(seconds[-1] / seconds_of(job, cured))
            say(f"{seconds[-1]:.2f} s, gain {ratios[-1]:.2f}")
    return msgspec.structs.replace(
        job,
        gain=round(statistics.median(ratios), 3),
        low=round(min(ratios), 3),
        high=round(max(ratios), 3),
        pairs=len(ratios),
        seconds=round(statistics.median(seconds), 2),
        cores=len(os.sched_getaffinity(0)),
        torch=_torch_version(python),
        method="thread" if busy else "wall",
    )


def seconds_of(job: Job, run: JobRun) -> float:
    """What the job's clock says of a run. Raises JobError where it said nothing."""
    if job.clock == "whole":
        return run.whole_s
    if run.loop_s is None:
        raise JobError("printed no 'took ... s'")
    return run.loop_s


def agree(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two lines of numbers say the same."""
    return len(one) == len(other) and all(
        math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=1e-3) for a, b in zip(one, other, strict=True)
    )


def _with_thread_clock(words: list[str]) -> list[str]:
    """The command of a script, through the bootstrap that makes it print thread seconds."""
    script = next(i for i, word in enumerate(words) if word.endswith(".py"))
    return [*words[:script], str(THREAD_CLOCK), *words[script:]]


def _run_undisturbed(run: Callable[[], JobRun]) -> JobRun:
    for _ in range(ATTEMPTS):
        done = run()
        if done.foreign <= FOREIGN:
            return done
    raise JobError(f"other work used {done.foreign:.0%} of the cores meanwhile")


def _torch_version(python: str) -> str:
    code = "import importlib.metadata as m; print(m.version('torch'))"
    return subprocess.check_output([python, "-c", code], text=True).strip()
