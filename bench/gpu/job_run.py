"""One job, run plainly or under whyidle, and what it printed and what whyidle concluded."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.gpu.leash import start_leashed
from bench.gpu.target import Target

JOBS = Path(__file__).parent / "jobs"
PACE = re.compile(r"steps (\d+), ([\d.]+) ms a step, batch (\d+), (?:loss (\S+)|no loss)")
SPARE_S = 120.0
"""seconds that a job may take beyond its training: imports, start of CUDA, the report"""


class JobError(Exception):
    """A job failed; the text says how it ended."""


@dataclass(frozen=True)
class JobRun:
    """What one run of a job showed."""

    steps: int
    step_s: float
    """seconds per step in the second half of the run, by the job's own clock"""
    batch: int
    loss: float | None
    output: str
    diagnosis: dict[str, Any] | None = None
    """the document, where whyidle watched it"""

    @property
    def sample_s(self) -> float:
        """Seconds per sample."""
        return self.step_s / self.batch


def run_command(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], limit_s: float
) -> tuple[int, str, str]:
    """Exit status, standard output and standard error; every process of it ends at the limit,
    and when this process ends.

    Raises:
        JobError: it ran past its limit.
    """
    process, leash = start_leashed(
        words, folder, environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise JobError(f"no end after {limit_s:.0f} s: {' '.join(words)}") from None
    finally:
        os.close(leash)  # whatever still runs ends now
        process.wait()
    return process.returncode, output, errors


def job_words(
    target: Target, script: str | Path, options: Sequence[str], seconds: float
) -> list[str]:
    """The command of a job."""
    words = [sys.executable, str(script), "--device", target.kind, "--seconds", str(seconds)]
    return [*words, *options]


def watch_words(
    profile: str,
    *,
    store: Path | None = None,
    plan: Path | None = None,
    document: Path | None = None,
) -> list[str]:
    """``whyidle run`` without its report, in front of a command."""
    words = [sys.executable, "-m", "whyidle", "run", "--quiet", "--no-live", "--profile", profile]
    words += ["--store", str(store)] if store else ["--no-store"]
    words += ["--plan", str(plan)] if plan else []
    return [*words, *(["--json", str(document)] if document else []), "--"]


def last_line(output: str, errors: str) -> str:
    """The last thing that a command said."""
    return "".join((errors.strip() or output.strip()).splitlines()[-1:]) or "no output"


def run_timed(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], limit_s: float
) -> JobRun:
    """Run a command with a job in it, and read the pace that the job prints.

    Raises:
        JobError: it failed, ran past its limit, or printed no pace.
    """
    status, output, errors = run_command(words, folder, environment, limit_s)
    match = PACE.search(output)
    if status or match is None:
        raise JobError(f"status {status}: {last_line(output, errors)}")
    steps, milliseconds, batch, loss = match.groups()
    return JobRun(
        steps=int(steps),
        step_s=float(milliseconds) / 1e3,
        batch=int(batch),
        loss=float(loss) if loss else None,
        output=output,
    )


def find_recording(store: Path) -> Path:
    """The raw evidence of the only run in a store.

    Raises:
        JobError: nothing was recorded.
    """
    recordings = [path for path in store.glob("runs/*/recording") if path.is_dir()]
    if len(recordings) != 1:
        raise JobError(f"{len(recordings)} recordings in the store, not one")
    return recordings[0]


def run_job(
    target: Target,
    script: str,
    options: Sequence[str],
    *,
    profile: str | None,
    changes: Sequence[tuple[str, str]] = (),
    environment: Mapping[str, str] | None = None,
    seconds: float | None = None,
    store: Path | None = None,
    plan: Path | None = None,
) -> JobRun:
    """Run a job of ``bench/gpu/jobs``, with ``changes`` of its text, in an empty folder: under
    ``whyidle run --profile``, or alone without a ``profile``. ``store`` keeps what whyidle
    recorded, ``plan`` is applied.

    Raises:
        JobError: it failed, ran past its limit, or printed no pace.
    """
    seconds = seconds or target.job_s
    with tempfile.TemporaryDirectory(prefix="whyidle-gpu-") as name:
        folder = Path(name)
        copy = target.write_script(JOBS / script, folder, changes)
        words = job_words(target, copy.name, options, seconds)
        document = folder / "diagnosis.json"
        if profile:
            words = [*watch_words(profile, store=store, plan=plan, document=document), *words]
        run = run_timed(
            words, folder, {**target.environment, **(environment or {})}, seconds + SPARE_S
        )
        if not profile:
            return run
        return replace(run, diagnosis=json.loads(document.read_text(encoding="utf-8")))
