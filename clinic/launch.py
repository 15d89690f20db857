"""Starting one job, alone or under watch, and reading what it tells of its steps."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from clinic.card import WORKLOADS, Budget, Case, Measure, Mode, Options

NAME = "train.py"
"""every script's name, where it runs"""
DEVICES: dict[Mode, str] = {"cpu": "cpu", "emulated": "emulated", "gpu": "cuda", "recorded": "cpu"}
WARM = 0.2
"""share of the time of an arm, its beginning, that is left out"""
QUIET = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
"""set for every job, where the card says nothing else: two cores are shared with loader workers"""
LOOK_S = 0.05
"""between two looks at a job that runs: so much is lost at its end"""
GIVE_WAY_S = 0.1
"""nobody who waits for a lock is slower to take it"""
DROPPED = ("WHYIDLE_HOME", "WHYIDLE_DISABLE", "WHYIDLE_RUN", "MKL_NUM_THREADS")


_stopping = threading.Event()


class JobError(Exception):
    """A job that did not end well, or told nothing."""


class StoppedError(Exception):
    """A job that we ended, because somebody asked for it: nothing is known of it."""


class Times(msgspec.Struct, frozen=True):
    """What a job writes of itself: seconds of a clock that all processes share."""

    begin: float
    marks: list[float]
    samples: float | list[float]
    end: float | None = None
    """of the script, where it does something after its last step"""
    drained: list[int] = []
    """marks at which the device had done all that it was given: elsewhere its host is ahead"""

    def rate(self, measure: Measure) -> float:
        """Samples per second, steady, or from the script's first line to its end.

        Raises:
            JobError: there were not enough steps.
        """
        marks = self.marks
        if len(marks) < 4:
            raise JobError(f"only {len(marks)} steps were made")
        each = self.samples if isinstance(self.samples, list) else [self.samples] * len(marks)
        if measure == "whole":
            return sum(each) / ((self.end or marks[-1]) - self.begin)
        since = marks[0] + WARM * (marks[-1] - marks[0])
        first = next(i for i, mark in enumerate(marks) if mark >= since)
        first, last = min(first, len(marks) - 2), len(marks) - 1
        if len(self.drained) > 1:
            first, last = self.drained[0], self.drained[-1]
        return sum(each[first + 1 : last + 1]) / (marks[last] - marks[first])


@contextmanager
def scratch(case: Case, mode: Mode = "cpu", first: str = "") -> Iterator[Path]:
    """A folder of its own that holds the script, under the same name as everybody's. What is to be
    done ``first``, as for the emulated device to exist, is in its first line; all keep their
    numbers."""
    folder = Path(tempfile.mkdtemp(prefix="job-"))
    try:
        text = (WORKLOADS / f"{case.workload}.py").read_text(encoding="utf-8")
        first += "import whyidle.testing.emulated; " if mode == "emulated" else ""
        (folder / NAME).write_text(first + text, encoding="utf-8")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def turn(lock: Path | None) -> Iterator[None]:
    """Only one timed job at a time, among all who name the same file."""
    if lock is None:
        yield
        return
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
            time.sleep(GIVE_WAY_S)  # who asks again at once gets it before those who wait


def command(options: Options, mode: Mode, seconds: float, measure: Measure) -> list[str]:
    """What a person would type."""
    words = []
    if "@cores" in options:
        words += ["taskset", "-c", ",".join(map(str, sorted(_cores(int(options["@cores"])))))]
    words += [sys.executable]
    if "@ranks" in options:
        words += ["-m", "torch.distributed.run", "--standalone"]
        words += ["--nproc-per-node", str(options["@ranks"])]
    words += [NAME]
    asked: Options = {} if measure == "whole" else {"seconds": seconds}
    if mode != "cpu":
        asked["device"] = DEVICES[mode]
    for name, value in {**asked, **options}.items():
        if name[0] in "$@%" or value is False:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(str(value))
    return words


def _cores(count: int) -> list[int]:
    return sorted(os.sched_getaffinity(0))[:count]


def environment(options: Options) -> dict[str, str]:
    """Ours, with what the card sets, and the product importable from any folder."""
    kept = {name: value for name, value in os.environ.items() if name not in DROPPED}
    path = [str(Path(entry).absolute()) for entry in kept.get("PYTHONPATH", "").split(":") if entry]
    kept["PYTHONPATH"] = os.pathsep.join(path)
    own = {name[1:]: str(value) for name, value in options.items() if name[0] == "$"}
    device = {name[1:]: value for name, value in options.items() if name[0] == "%"}
    if device:
        own["WHYIDLE_EMULATED"] = msgspec.json.encode(
            {name: _parsed(value) for name, value in device.items()}
        ).decode()
    return {**kept, **QUIET, **own}


def _parsed(value: object) -> object:
    """Lists of the emulated device's settings stand in cards as JSON."""
    return msgspec.json.decode(value) if isinstance(value, str) and value[:1] == "[" else value


def alone(case: Case, options: Options, mode: Mode) -> Times:
    """One arm, without us."""
    with scratch(case, mode) as folder:
        words = command(options, mode, case.budget.arm_s, case.measure)
        # taking an interpreter down with all its tensors is nearly a second that tells nothing;
        # ranks are in sessions of their own, and would be left behind
        done = None if "@ranks" in options else partial(_has_told, folder)
        start(words, folder, options, case.budget, done=done)
        return times(folder)


def _has_told(folder: Path) -> bool:
    """Whether the job in a folder has written all that it writes of itself."""
    with suppress(JobError):
        return bool(times(folder).marks)
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
            found = times(folder)
        recording = next((Path(kept) / "store").glob("runs/*/recording"), Path(kept))
        truths = [path.read_bytes() for path in Path(kept).glob("truth/*.json")]
        yield Watched(told.read_bytes(), found, status, truths), recording


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


def _beside(kept: Path) -> Options:
    """Where the emulated device tells its own account, and shows what a driver would show."""
    for name in ("truth", "counters"):
        (kept / name).mkdir()
    return {
        "$WHYIDLE_EMULATED_TRUTH": str(kept / "truth"),
        "$WHYIDLE_EMULATED_COUNTERS": str(kept / "counters"),
    }


def times(folder: Path) -> Times:
    """What the job in a folder wrote of itself. Raises JobError where it wrote nothing."""
    path = folder / "times.json"
    if not path.is_file():
        raise JobError("the job wrote no times")
    try:
        return msgspec.json.decode(path.read_bytes(), type=Times)
    except msgspec.DecodeError as error:
        raise JobError(f"the job's times cannot be read: {error}") from error


def start(
    words: list[str],
    folder: Path,
    options: Options,
    budget: Budget,
    *,
    may_fail: bool = False,
    done: Callable[[], bool] | None = None,
) -> int:
    """Run to the end, or until it is ``done``; nothing of it survives a time-out.

    Raises:
        JobError: it failed.
        StoppedError: it was ended by ``stop``, or had not begun then.
    """
    own = environment(options)
    if _stopping.is_set():
        raise StoppedError
    with (folder / "said.txt").open("wb") as said:
        child = subprocess.Popen(
            [*words, "--times", "times.json"],
            cwd=folder,
            env=own,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = _ended(child, budget.limit_s, done)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if status and not may_fail:
        tail = (folder / "said.txt").read_text("utf-8", "replace").strip()[-600:]
        raise JobError(f"ended with {status}: {tail}")
    return status


def _ended(child: subprocess.Popen[bytes], limit_s: float, done: Callable[[], bool] | None) -> int:
    """Its status; 0 where it is done, though not gone."""
    until = wall() + limit_s
    while wall() < until:
        status = child.poll()
        if status is not None:
            return status
        if _stopping.is_set():
            raise StoppedError
        if done and done():
            return 0
        time.sleep(LOOK_S)
    raise JobError(f"took longer than {limit_s:.0f} s")


@contextmanager
def stoppable() -> Iterator[None]:
    """Whoever leaves early, as by Ctrl-C, ends what was started in here, in whatever thread."""
    _stopping.clear()
    try:
        yield
    except BaseException:
        _stopping.set()
        raise


def wall() -> float:
    """Now, for durations."""
    return time.monotonic()
