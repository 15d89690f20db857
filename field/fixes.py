"""What ``whyidle fix`` does to a job, and where that is kept."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import msgspec

from field.processes import JobError, run_process, scratch_folder, split_command
from field.truth import Job
from field.watch import fingerprint


class Trial(msgspec.Struct, frozen=True):
    """One trial: seconds per step without and with a fix, and their ratio with its interval."""

    fix: str
    kept: bool
    why: str
    baseline: float | None
    treated: float | None
    speedup: float | None
    low: float | None


class Fixed(msgspec.Struct, frozen=True, kw_only=True):
    """What came of fixing one job.

    Attributes:
        source: fingerprint of the product's source.
        trials: in the order in which they ran.
        edit: first line that the report tells people to change: of the patch, or of an advice.
        error: why there is no result.
    """

    job: str
    source: str
    trials: tuple[Trial, ...] = ()
    edit: str = ""
    error: str = ""

    @property
    def kept(self) -> list[Trial]:
        """The trials whose fix was kept."""
        return [trial for trial in self.trials if trial.kept]

    @property
    def speedup(self) -> float:
        """All kept fixes together; each is measured against the job with those before it."""
        return math.prod(trial.speedup or 1.0 for trial in self.kept)


class _Fix(msgspec.Struct):
    summary: str


class _Finding(msgspec.Struct):
    severity: str
    fixes: list[_Fix]


class _Document(msgspec.Struct):
    trials: list[Trial]
    findings: list[_Finding]


class FixedJobs:
    """The kept results, a file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "fixes"

    def load(self, name: str) -> Fixed | None:
        """What is kept of a job."""
        path = self.folder / f"{name}.json"
        return msgspec.json.decode(path.read_bytes(), type=Fixed) if path.is_file() else None

    def save(self, fixed: Fixed) -> None:
        """Keep one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = msgspec.json.format(msgspec.json.encode(fixed))
        (self.folder / f"{fixed.job}.json").write_bytes(text)


def fix_job(name: str, job: Job, python: str, trial_s: int) -> Fixed:
    """Run a job under ``whyidle fix`` with so many seconds for its trials."""
    with scratch_folder() as folder:
        document, patch = folder / "diagnosis.json", folder / "fix.patch"
        words = [sys.executable, "-m", "whyidle", "fix", "--quiet", "--no-store"]
        words += ["--budget", f"{trial_s}s", "--json", str(document), "--patch", str(patch), "--"]
        error = ""
        try:
            run_process([*words, *split_command(job.command, python)], folder)
        except JobError as failed:  # also where no fix was kept
            error = str(failed)
        if not document.is_file():
            return Fixed(job=name, source=fingerprint(), error=error or "no document was written")
        read = msgspec.json.decode(document.read_bytes(), type=_Document)
        text = patch.read_text("utf-8") if patch.is_file() else ""
    added = (
        line[1:].strip() for line in text.splitlines() if line[:1] == "+" and line[:3] != "+++"
    )
    told = (fix.summary for one in read.findings if one.severity != "info" for fix in one.fixes)
    edit = next(filter(None, added), "") or next(told, "")
    return Fixed(job=name, source=fingerprint(), trials=tuple(read.trials), edit=edit)
