"""`whyidle prepare` on datasets of text and numbers, which need no framework."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from whyidle.__main__ import main

pytestmark = pytest.mark.real_processes("samples are made in fresh processes")

DATASETS = """
import contextlib, os, random, time
class Lines:
    def __init__(self, random=False):
        with open("text.txt") as file:
            self.lines = file.read().splitlines()
        self.random = random
    def __len__(self):
        return len(self.lines)
    def __getitem__(self, index):
        words = self.lines[index].split()
        ids = [sum(map(ord, word[:9])) % 997 for word in words for _ in range(20)][::20]
        return ids, {"text": self.lines[index], "draw": random.random() if self.random else 0.5}
def make_lines():
    return Lines()
def make_random():
    return Lines(random=True)
def make_broken():
    raise RuntimeError("no data here")
class Slow(Lines):
    def __getitem__(self, index):
        if os.path.exists("full/out") and index == 60:
            with open("full/other", "wb", buffering=0) as file, contextlib.suppress(OSError):
                while file.write(bytes(65536)):
                    pass
        if os.path.exists("touched") and index == 61:
            with open("text.txt", "a") as file:
                file.write("more\\n")
        time.sleep(0.002)
        return super().__getitem__(index)
def make_slow():
    return Slow()
class Odd:
    def __len__(self):
        return 3
    def __getitem__(self, index):
        return object()
odd = Odd()
numbers = list(range(99))
"""


@pytest.fixture(autouse=True)
def datasets() -> None:
    Path("sets.py").write_text(DATASETS)
    lines = (" ".join(f"word{i * j % 91}" for j in range(i % 30 + 1)) for i in range(120))
    Path("text.txt").write_text("\n".join(lines) + "\n")


def prepare(*words: str, spec: str = "sets.py:make_lines") -> int:
    return main(["prepare", "--out", "out", "--shard", "0.004", "--workers", "1", *words, spec])


def read_back(monkeypatch: pytest.MonkeyPatch) -> tuple[object, object]:
    """The dataset as the shown edit reads it, and the original."""
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.syspath_prepend(str(Path("out").absolute()))
    for name in [
        name for name in sys.modules if name.partition(".")[0] in ("whyidle_prepared", "sets")
    ]:
        del sys.modules[name]
    reader, sets = importlib.import_module("whyidle_prepared"), importlib.import_module("sets")
    return reader.PreparedDataset("out"), sets.make_lines()


def test_samples_are_the_same_and_the_edit_reads_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert prepare() == 0
    told = capsys.readouterr()
    assert "64 made twice were identical" in told.err
    assert "predicted" in told.err
    assert "+ from whyidle_prepared import PreparedDataset" in told.out
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert manifest["sources"] == [str(Path("text.txt").absolute())]
    assert len(manifest["shards"]) > 3
    prepared, original = read_back(monkeypatch)
    assert len(prepared) == len(original) == 120  # type: ignore[arg-type]
    assert [prepared[i] for i in range(-1, 120)] == [original[i] for i in range(-1, 120)]  # type: ignore[index]
    with pytest.raises(IndexError):
        prepared[120]  # type: ignore[index]


def test_an_interrupted_run_goes_on_by_shard_and_mends_a_broken_one(
    monkeypatch: pytest.MonkeyPatch,
):
    assert prepare() == 0
    lines = Path("out/progress.jsonl").read_text().splitlines(keepends=True)
    kept, broken = sorted(path for path in Path("out").iterdir() if path.stem in ("00000", "00001"))
    whole, moment = broken.read_bytes(), kept.stat().st_mtime_ns
    Path("out/manifest.json").unlink()
    Path("out/progress.jsonl").write_text("".join(lines[:3]) + lines[3][:20])
    broken.write_bytes(whole[:-1] + b"?")
    assert prepare() == 0
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert hashlib.sha256(broken.read_bytes()).hexdigest() == manifest["shards"][1]["sha256"]
    assert kept.stat().st_mtime_ns == moment
    prepared, original = read_back(monkeypatch)
    assert [prepared[i] for i in range(120)] == [original[i] for i in range(120)]  # type: ignore[index]


def test_a_run_that_is_killed_goes_on(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    words = ["prepare", "--out", "out", "--shard", "0.004", "--workers", "2"]
    command = [sys.executable, "-m", "whyidle", *words, "sets.py:make_slow"]
    running = subprocess.Popen(command)
    until = time.monotonic() + 60
    while len(list(Path("out").glob("0*"))) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    running.send_signal(signal.SIGSTOP)
    assert main([*words, "sets.py:make_slow"]) == 2
    assert "is being written" in capfd.readouterr().err
    running.kill()
    running.wait()
    assert not Path("out/manifest.json").exists()
    assert main([*words, "sets.py:make_slow"]) == 0
    assert "BrokenPipe" not in capfd.readouterr().err
    assert not list(Path("out").glob("*~"))
    prepared, original = read_back(monkeypatch)
    assert [prepared[i] for i in range(120)] == [original[i] for i in range(120)]  # type: ignore[index]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_disk_that_another_program_fills(capsys: pytest.CaptureFixture[str]):
    Path("full").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", "full"]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("no file system may be mounted here")
    try:
        assert prepare("--out", "full/out", spec="sets.py:make_slow") == 1
        told = capsys.readouterr().err
        assert "The disk is full" in told or "has no room" in told
        assert not list(Path("full/out").glob("*~"))
        Path("full/other").unlink()
        Path("full/out").rename("full/out2")
        assert prepare("--out", "full/out2", spec="sets.py:make_slow") == 0
    finally:
        subprocess.run(["umount", "full"], check=True)


def test_a_source_that_is_newer_than_the_data_is_warned_of(monkeypatch: pytest.MonkeyPatch):
    assert prepare("-q") == 0
    later = time.time() + 60
    os.utime("text.txt", (later, later))
    with pytest.warns(UserWarning, match=r"text.txt is newer than the data"):
        read_back(monkeypatch)


def test_the_shown_edit_works_for_any_folder(capsys: pytest.CaptureFixture[str]):
    assert prepare("--out", "some data/2024-01") == 0
    told = capsys.readouterr().out
    edit = "\n".join(line[4:] for line in told.splitlines() if line.startswith("  + "))
    Path("job.py").write_text(f"{edit}\nprint(len(dataset), dataset[3][1]['draw'])\n")
    done = subprocess.run(
        [sys.executable, "../job.py"], cwd="some data", capture_output=True, text=True, check=True
    )
    assert done.stdout == "120 0.5\n"


def test_sources_that_change_meanwhile(capsys: pytest.CaptureFixture[str]):
    Path("touched").touch()
    assert prepare(spec="sets.py:make_slow") == 1
    assert "changed while they were prepared" in capsys.readouterr().err
    assert not Path("out/manifest.json").exists()


def test_other_sources_and_other_code_are_refused(capsys: pytest.CaptureFixture[str]):
    assert prepare("-q") == 0
    text = Path("text.txt").read_text()
    Path("text.txt").write_text(text.replace("word1", "word2"))
    assert prepare() == 1
    assert "the source files have changed" in capsys.readouterr().err
    Path("fresh").mkdir()
    Path("fresh/file").write_text("x")
    assert prepare("--out", "fresh") == 1
    assert "contains other files" in capsys.readouterr().err


def test_what_cannot_be_prepared(capsys: pytest.CaptureFixture[str]):
    assert prepare(spec="sets.py:make_random") == 1
    assert "not deterministic" in capsys.readouterr().err
    assert prepare(spec="sets.py:make_broken") == 1
    assert "RuntimeError: no data here" in capsys.readouterr().err
    assert prepare(spec="sets.py:odd") == 1
    assert "a sample holds a builtins.object" in capsys.readouterr().err
    assert main(["prepare"]) == 2
    assert "Name the function that makes the dataset" in capsys.readouterr().err
    assert not Path("out").exists()


def test_what_would_be_slower_is_written_only_by_force(capsys: pytest.CaptureFixture[str]):
    assert prepare("--dry-run", spec="sets.py:numbers") == 0
    assert "not worth it" in capsys.readouterr().err
    assert prepare(spec="sets.py:numbers") == 1
    told = capsys.readouterr().err
    assert "slower than making them: nothing was written" in told
    assert "--force" in told
    assert not Path("out").exists()
    assert prepare("--force", spec="sets.py:numbers") == 0
    assert "Keep the dataset as it is." in capsys.readouterr().out
    assert Path("out/manifest.json").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_is_met_before_anything_is_written(capsys: pytest.CaptureFixture[str]):
    disk = Path("disk")
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)], check=False
    )
    if mounted.returncode:
        pytest.skip("no file system may be mounted here")
    try:
        Path("text.txt").write_text("\n".join(["w" * 300_000] * 40) + "\n")
        assert prepare("--out", "disk/out", "--shard", "2") == 1
        told = capsys.readouterr().err
        assert "has no room for the prepared data" in told
        assert "Nothing was written" in told
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)
