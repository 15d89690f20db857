"""One run of a job: alone, under watch, or as somebody recorded it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from clinic.card import Case, Mode, Options
from clinic.launch import scratch, start
from clinic.times import JobError, Times, written
from clinic.typed import NAME, command, environment


def alone(case: Case, options: Options, mode: Mode) -> Times:
    """One arm, without us."""
    with scratch(case, mode) as folder:
        words = command(options, mode, case.budget.arm_s, case.measure)
        # taking an interpreter down with all its tensors is nearly a second that tells nothing;
        # ranks are in sessions of their own, and would be left behind
        done = None if "@ranks" in options else partial(_has_told, folder)
        warm = (
            words[1] == NAME
            and "@python" not in options
            and case.measure == "steps"
            and not any(name.startswith("$") for name in options)
        )
        start(words, folder, options, case.budget, done=done, warm=warm)
        return written(folder)


def _has_told(folder: Path) -> bool:
    """Whether the job in a folder has written all that it writes of itself."""
    with suppress(JobError):
        return bool(written(folder).marks)
    return False


class Watched(msgspec.Struct, frozen=True):
    """What came of a job under watch."""

    document: bytes
    times: Times | None
    status: int
    truths: list[bytes] = []


@contextmanager
def watched(case: Case, options: Options, mode: Mode) -> Iterator[tuple[Watched, Path]]:
    """The job under ``whyidle run``, and the folder of its recording while it is kept."""
    with scratch(case, mode) as folder, tempfile.TemporaryDirectory(prefix="kept-") as kept:
        told = Path(kept) / "told.json"
        if mode == "emulated":
            options = {**options, **_beside(Path(kept))}
        words = [sys.executable, "-m", "whyidle", "run", "--quiet", "--no-live"]
        words += ["--store", str(Path(kept) / "store"), "--json", str(told)]
        words += command(options, mode, case.budget.watch_s, case.measure)
        status = start(words, folder, options, case.budget, may_fail=case.kind == "unknown")
        if not told.is_file():
            raise JobError("there is no diagnosis")
        found = None
        with suppress(JobError):
            found = written(folder)
        recording = next((Path(kept) / "store").glob("runs/*/recording"), Path(kept))
        truths = [path.read_bytes() for path in Path(kept).glob("truth/*.json")]
        yield Watched(told.read_bytes(), found, status, truths), recording


def _beside(kept: Path) -> Options:
    """Where the emulated device tells its own account, and shows what a driver would show."""
    for name in ("truth", "counters"):
        (kept / name).mkdir()
    return {
        "$WHYIDLE_EMULATED_TRUTH": str(kept / "truth"),
        "$WHYIDLE_EMULATED_COUNTERS": str(kept / "counters"),
    }


@contextmanager
def explained(case: Case) -> Iterator[tuple[Watched, Path]]:
    """What is said of a recording that somebody made, as ``watched`` gives it."""
    text = explain(recording(case.recording), case.budget.limit_s)
    yield Watched(text, None, 0), Path("nowhere")


def recordings() -> Path:
    """The folder of recordings that other people made, if it is there."""
    return Path(os.environ.get("WHYIDLE_TRACES", "traces"))


def recording(name: str) -> Path:
    """Where it is. Raises JobError where it is not on this machine."""
    path = recordings() / name
    if not path.exists():
        raise JobError(f"{name} is not in the folder that WHYIDLE_TRACES names")
    return path


def explain(path: Path, limit_s: float) -> bytes:
    """The diagnosis of a recording."""
    words = [sys.executable, "-m", "whyidle", "explain", "--quiet", "--no-store", "--json", "-"]
    try:
        done = subprocess.run(
            [*words, str(path)],
            check=False,
            capture_output=True,
            timeout=limit_s,
            env=environment({}),
        )
    except subprocess.TimeoutExpired:
        raise JobError(f"took longer than {limit_s:.0f} s") from None
    if done.returncode:
        raise JobError(f"ended with {done.returncode}: {done.stderr.decode()[-400:]}")
    return done.stdout
