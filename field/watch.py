"""What whyidle says of a job, and where that is kept."""

from __future__ import annotations

import hashlib
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

import whyidle
from field.processes import JobError, run_process, scratch_folder, split_command
from field.truth import JOBS, Job

FIRST = 3
"""so many findings are kept: a reader looks no further"""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One finding.

    Attributes:
        cause: its id.
        places: "script.py:12: text of the line" of each place in the job's own scripts.
        removal: speed-up, low and high; None where none is told.
        promised: the largest speed-up that its removal or one of its fixes promises.
    """

    cause: str
    headline: str
    places: tuple[str, ...]
    removal: tuple[float, float, float] | None
    promised: float


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of watching one job.

    Attributes:
        source: fingerprint of the product's source.
        found: the first findings that are no mere remarks, as ordered in the document.
        error: why there is no diagnosis.
    """

    job: str
    source: str
    state: str = ""
    headline: str = ""
    found: tuple[Said, ...] = ()
    error: str = ""


class Outcomes:
    """The kept outcomes, a file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, name: str) -> Outcome | None:
        """What is kept of a job."""
        path = self.folder / f"{name}.json"
        return msgspec.json.decode(path.read_bytes(), type=Outcome) if path.is_file() else None

    def save(self, outcome: Outcome) -> None:
        """Keep one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = msgspec.json.format(msgspec.json.encode(outcome))
        (self.folder / f"{outcome.job}.json").write_bytes(text)

    def store(self, name: str) -> Path:
        """The folder of the recording of a job."""
        return self.folder / "stores" / name


def watch_job(name: str, job: Job, python: str, store: Path) -> Outcome:
    """Run a job under ``whyidle run`` and keep the recording in ``store``."""
    shutil.rmtree(store, ignore_errors=True)
    with scratch_folder() as folder:
        document = folder / "diagnosis.json"
        words = [sys.executable, "-m", "whyidle", "run", "--quiet", "--no-live"]
        words += ["--look", "profile"]  # these jobs last seconds: what reports of short runs advise
        words += ["--store", str(store), "--json", str(document)]
        try:
            run_process([*words, *split_command(job.command, python)], folder)
            return read_outcome(name, document.read_bytes())
        except (JobError, OSError) as error:
            return Outcome(job=name, source=fingerprint(), error=str(error))


def explain_again(name: str, store: Path) -> Outcome:
    """The diagnosis by the present source of a recording that is kept. Raises JobError."""
    recording = next(store.glob("runs/*/recording/"), None)  # the folder above has a diagnosis
    if recording is None:
        raise JobError("no recording is kept")
    words = [sys.executable, "-m", "whyidle", "explain", "--quiet", "--no-store", "--json", "-"]
    return read_outcome(name, run_process([*words, str(recording)], store).encode())


def read_outcome(name: str, document: bytes) -> Outcome:
    """What matters of a diagnosis document."""
    read = msgspec.json.decode(document)
    serious = [one for one in read["findings"] if one["severity"] != "info"]
    return Outcome(
        job=name,
        source=fingerprint(),
        state=read["verdict"]["state"],
        headline=read["verdict"]["headline"],
        found=tuple(map(_read_finding, serious[:FIRST])),
    )


def _read_finding(finding: dict[str, Any]) -> Said:
    removal = finding["removal"]
    if removal and removal["speedup"] is None:  # "not known"
        removal = None
    predicted = [fix["predicted"] for fix in finding["fixes"] if fix["predicted"]]
    promises = [one["speedup"] for one in [*predicted, *([removal] if removal else [])]]
    return Said(
        cause=finding["cause"],
        headline=finding["headline"],
        places=tuple(filter(None, map(_read_place, finding["where"]))),
        removal=(removal["speedup"], removal["low"], removal["high"]) if removal else None,
        promised=max([1.0, *promises]),
    )


def _read_place(place: dict[str, Any]) -> str:
    """A place in a job's script with the text of its line; nothing of other files."""
    name = Path(place["file"] or "").name
    if not place["line"] or not (JOBS / name).is_file():
        return ""
    lines = (JOBS / name).read_text("utf-8").splitlines()
    text = lines[place["line"] - 1].strip() if place["line"] <= len(lines) else ""
    return f"{name}:{place['line']}: {text}"


@cache
def fingerprint() -> str:
    """Of the product's source."""
    root = Path(whyidle.__file__).parent
    whole = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        whole.update(path.read_bytes())
    return whole.hexdigest()[:12]
