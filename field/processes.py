"""Running a job's command in a folder of its own."""

from __future__ import annotations

import ast
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import psutil

from field.truth import CURED, JOBS, Job

LIMIT_S = 300.0
"""longer than ten times any job here"""
_TOOK = re.compile(r"^took ([\d.]+) s$", re.MULTILINE)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?|nan|inf")


class JobError(Exception):
    """A job failed, or did not say what it must say."""


class JobRun(msgspec.Struct, frozen=True):
    """One run of a command.

    Attributes:
        whole_s: from its start to its end.
        loop_s: the seconds that the job printed; None where it printed none.
        results: the numbers of the last line before those.
        foreign: share of the machine's cores that others used meanwhile at normal priority, 0 to 1.
    """

    whole_s: float
    loop_s: float | None
    results: tuple[float, ...]
    foreign: float


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder with all scripts and their cured twins, which vanishes. A cure is a patch of the
    script.

    Raises:
        JobError: a patch does not fit its script.
    """
    folder = Path(tempfile.mkdtemp(prefix="field-"))
    try:
        for script in JOBS.glob("*.py"):
            shutil.copy(script, folder)
        for cure in JOBS.glob("*.patch"):
            twin, sick = f"{cure.stem}{CURED}.py", f"{cure.stem}.py"
            words: list[str] = ["patch", "--silent", "--output", twin, sick, str(cure)]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                raise JobError(f"{cure.name} does not fit: {done.stdout.strip()}")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def split_command(command: str, python: str) -> list[str]:
    """The words of a command, with an interpreter put for "python"."""
    return [python if word == "python" else word for word in shlex.split(command)]


def run_job(
    words: Sequence[str], folder: Path, settings: Mapping[str, str] | None = None
) -> JobRun:
    """Run a job alone. Raises JobError where it fails or takes too long."""
    busy, own, start = _busy_s(), _children_s(), time.monotonic()
    text = run_process(words, folder, settings=settings)
    whole = time.monotonic() - start
    foreign = (_busy_s() - busy) - (_children_s() - own)
    loop, results = read_output(text)
    return JobRun(whole, loop, results, max(0.0, foreign / whole / (os.cpu_count() or 1)))


def run_process(
    words: Sequence[str],
    folder: Path,
    limit_s: float = LIMIT_S,
    settings: Mapping[str, str] | None = None,
) -> str:
    """What a command printed. Raises JobError where it fails or takes too long."""
    process = subprocess.Popen(
        words,
        cwd=folder,
        env={**os.environ, **(settings or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        text, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise JobError(f"took longer than {limit_s:.0f} s") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode:
        raise JobError(f"ended with {process.returncode}: {errors.strip()[-600:]}")
    return text


def read_output(text: str) -> tuple[float | None, tuple[float, ...]]:
    """The seconds that a job printed, and the numbers of the line before."""
    found = _TOOK.search(text)
    if not found:
        return None, ()
    before = [line for line in text[: found.start()].splitlines() if _NUMBER.search(line)]
    numbers = tuple(map(float, _NUMBER.findall(before[-1]))) if before else ()
    return float(found[1]), numbers


def find_missing_imports(
    jobs: dict[str, Job], python: str, folder: Path = JOBS
) -> dict[str, list[str]]:
    """By job, the modules that it imports and that this interpreter has not."""
    needs = {name: _imported(folder / job.script) for name, job in jobs.items()}
    every = sorted(set().union(*needs.values()))
    code = (
        "import importlib.util, json, sys; "
        "print(json.dumps([n for n in sys.argv[1:] if not importlib.util.find_spec(n)]))"
    )
    try:
        done = subprocess.run(
            [python, "-c", code, *every], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise JobError(f"{python} does not run: {error}") from None
    missing = set(json.loads(done.stdout))
    return {name: sorted(need & missing) for name, need in needs.items()}


def _imported(script: Path) -> set[str]:
    """Top-level modules that a script imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(script.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def _busy_s() -> float:
    """Seconds that all cores have worked since boot, but for work that gives way (nice)."""
    times = psutil.cpu_times()
    return float(times.user + times.system + times.irq + times.softirq)


def _children_s() -> float:
    """Seconds that the children which have ended had worked."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
