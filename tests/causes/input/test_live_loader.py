"""Each way of feeding a training job badly is the first finding on a real job that has it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from whyidle.record import launcher
from whyidle.record.recording_diagnosis import diagnose_recording, note_end

pytest.importorskip("torch")

pytestmark = pytest.mark.live

if not Path("/proc/thread-self/schedstat").exists():
    pytest.skip("the kernel does not tell how long threads wait", allow_module_level=True)

JOB = Path(__file__).with_name("loader_job.py")
SOURCE = JOB.read_text().splitlines()


def line_of(text: str, after: str) -> int:
    """The line that holds ``text``, behind the one that holds ``after``."""
    first = next(i for i, line in enumerate(SOURCE) if line.startswith(after))
    return next(i for i, line in enumerate(SOURCE[first:], first + 1) if text in line)


def watched(name: str, folder: Path):
    recording = folder / "recording"
    recording.mkdir()
    command = [sys.executable, str(JOB), name, str(folder)]
    done = subprocess.run(
        command,
        env=launcher.command_environment(recording),
        capture_output=True,
        text=True,
        check=True,
    )
    assert name in done.stdout
    assert not done.stderr
    assert not list(recording.glob("*.faults"))
    note_end(recording, "test", command, None)
    return diagnose_recording(recording)


def files(folder: Path) -> None:
    for number in range(64):
        (folder / f"{number}.bin").write_bytes(bytes(8192))


def large_files(folder: Path) -> None:
    for number in range(8):
        path = folder / f"{number}.big"
        with path.open("wb") as file:
            file.write(bytes(1 << 20))
            file.flush()
            os.fsync(file.fileno())


SICK = {
    "few": ("dataloader-too-few-workers", "for x, y, *_ in loader", "def main"),
    "heavy": ("heavy-cpu-transform", "the line", "class Augmented"),
    "parsed": ("repeated-deterministic-preprocessing", "the line", "class Parsed"),
    "remote": ("remote-storage-fetch-stall", "the line", "class Remote"),
    "small": ("small-file-random-io", "the line", "class SmallFiles"),
    "evicted": ("page-cache-thrash", "the line", "class Evicted"),
    "bursty": ("bursty-loader-shallow-prefetch", "the line", "class Bursty"),
    "handoff": ("worker-handoff-bottleneck", "def keep", "def keep"),
    "crowded": ("cpu-oversubscription", "the line", "class Crowded"),
    "restart": ("worker-restart-per-epoch", "for x, y, *_ in loader", "def main"),
    "none": ("dataloader-no-workers", "the line", "class Augmented"),
}
PREPARE = {"small": files, "evicted": large_files}
NEAR = 3
"""lines: a sample may fall on the loop's other lines, or in the function that is called there"""


@pytest.mark.parametrize("name", SICK)
def test_first_finding(name, tmp_path):
    cause, text, after = SICK[name]
    PREPARE.get(name, lambda _: None)(tmp_path)
    diagnosis = watched(name, tmp_path)
    first = diagnosis.findings[0]
    assert first.cause == cause, [(f.cause, f.lost) for f in diagnosis.findings]
    assert first.severity != "info"
    assert first.fixes
    assert diagnosis.verdict.bound == "input"
    places = [place for place in first.where if place.file == str(JOB)]
    assert places
    to_blame = [line_of(text, after), line_of("while time", "def work")]
    assert min(abs(place.line - line) for place in places for line in to_blame) <= NEAR


@pytest.mark.parametrize("name", ["ready", "tuned"])
def test_a_healthy_loader_is_not_blamed(name, tmp_path):
    diagnosis = watched(name, tmp_path)
    blamed = [f for f in diagnosis.findings if f.family == "input" and f.severity != "info"]
    assert not blamed
