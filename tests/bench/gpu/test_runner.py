"""The runner of the proof on a GPU: what survives, what is begun, and what its page says."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from bench.gpu import page, requirements, stage
from bench.gpu.__main__ import choose_target, main, parse_options
from bench.gpu.stage import Item, SkippedError, Stage, StageResult, run_stage
from bench.gpu.target import ROOT, Target

EMULATED = Target("emulated", "emulated device", 5.0)
SUICIDE = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_runner import EMULATED, make_stage, run_here
run_here(make_stage(lambda: os.kill(os.getpid(), signal.SIGKILL)), Path(sys.argv[1]))
"""


def make_stage(second):
    """A stage of three items, of which the second is given."""
    items = [
        Item("first", lambda: {"answer": 1}, 1.0),
        Item("second", second, 1.0),
        Item("third", lambda: {"answer": 3}, 1.0),
    ]
    return Stage("doctor", "A question", lambda target: items, lambda results: iter(()))


def run_here(chosen, folder, left_s=100.0, **options):
    """Run a stage; its result and what it reported."""
    lines = []
    result = run_stage(
        chosen, EMULATED, folder, seconds_left=lambda: left_s, report=lines.append, **options
    )
    return result, lines


def test_a_runner_that_was_killed_goes_on_where_it_was(tmp_path):
    words = [sys.executable, "-c", SUICIDE, str(tmp_path), str(Path(__file__).parent)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, env=environment, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert set(StageResult.load("doctor", EMULATED, tmp_path).items) == {"first"}
    result, lines = run_here(make_stage(lambda: {"answer": 2}), tmp_path)
    assert lines[0] == "doctor/first: known from before"
    assert [row["result"]["answer"] for row in result.items.values()] == [1, 2, 3]


ORPHANS = """
import os, signal, sys
from pathlib import Path
from threading import Timer
from bench.gpu.job_run import run_command
Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
words = ["sh", "-c", "setsid sleep 300 & echo $$ > started; setsid sleep 300"]
run_command(words, Path(sys.argv[1]), os.environ, 60)
"""


def test_jobs_end_with_a_runner_that_was_killed(tmp_path):
    words = [sys.executable, "-c", ORPHANS, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ORPHAN_OF": str(tmp_path)}
    done = subprocess.run(words, env=environment, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "started").exists()
    end = time.monotonic() + 20
    while (left := list_marked(f"ORPHAN_OF={tmp_path}")) and time.monotonic() < end:
        time.sleep(0.1)
    assert not left


def list_marked(mark):
    """Processes with this in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark.encode() in path.read_bytes():
                found.append(path.parent.name)
    return found


def test_an_item_that_fails_does_not_end_the_others_and_is_run_again(tmp_path):
    result, _ = run_here(make_stage(lambda: 1 // 0), tmp_path)
    assert [row["status"] for row in result.items.values()] == ["done", "failed", "done"]
    assert "ZeroDivisionError" in result.items["second"]["reason"]
    again, lines = run_here(make_stage(lambda: {"answer": 2}), tmp_path)
    assert again.items["second"]["status"] == "done"
    assert sum("known from before" in line for line in lines) == 2


def test_an_item_that_cannot_run_says_why_and_is_not_run_again(tmp_path):
    def skip():
        raise SkippedError("there is no such part")

    run_here(make_stage(skip), tmp_path)
    result, lines = run_here(make_stage(lambda: 1 // 0), tmp_path)
    assert result.items["second"]["reason"] == "there is no such part"
    assert sum("known from before" in line for line in lines) == 3


def test_nothing_is_begun_that_takes_longer_than_what_is_left(tmp_path):
    result, lines = run_here(make_stage(dict), tmp_path, left_s=0.5)
    assert result.items == {}
    assert all("not begun, needs about 1 s" in line for line in lines)


def test_only_the_named_item_is_run(tmp_path):
    result, _ = run_here(make_stage(lambda: 1 // 0), tmp_path, only="third")
    assert list(result.items) == ["third"]


def test_results_of_another_device_are_not_taken_over(tmp_path):
    run_here(make_stage(dict), tmp_path)
    gpu = Target("cuda", "NVIDIA H100", 10.0)
    assert StageResult.load("doctor", gpu, tmp_path).items == {}


def test_the_page_of_a_rehearsal_says_so_of_every_stage(tmp_path):
    page.write_page(tmp_path, EMULATED)
    text = (tmp_path / page.NAME).read_text(encoding="utf-8")
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert "**Rehearsal.**" in text
    assert len(headings) == len(stage.NAMES)
    assert all(heading.endswith("(emulated)") for heading in headings)


def test_the_page_names_what_failed_and_what_was_skipped(tmp_path):
    result = StageResult("doctor", EMULATED.name, True)
    result.items = {
        "nvml": {"status": "skipped", "seconds": 0.1, "reason": "nvidia-ml-py is missing"},
        "pytorch": {"status": "failed", "seconds": 0.2, "reason": "JobError: status 1"},
    }
    result.store(tmp_path)
    page.write_page(tmp_path, EMULATED)
    text = (tmp_path / page.NAME).read_text(encoding="utf-8")
    assert "nvml: skipped, nvidia-ml-py is missing" in text
    assert "pytorch: **failed**, JobError: status 1" in text
    assert "0 of 2 items done" in text


def test_the_page_of_results_from_elsewhere_is_of_their_device(tmp_path, capsys):
    assert main(["--page", "--out", str(tmp_path)]) == 2
    assert "no results" in capsys.readouterr().err
    StageResult("telemetry", "NVIDIA H100", False).store(tmp_path)
    assert main(["--page", "--out", str(tmp_path)]) == 0
    text = (tmp_path / page.NAME).read_text(encoding="utf-8")
    assert text.startswith("# whyidle on NVIDIA H100\n")
    assert "emulated" not in text.partition("## ")[0]


def test_wrong_options_are_named(tmp_path, capsys):
    pytest.importorskip("torch")
    file = tmp_path / "file"
    file.touch()
    assert main(["--emulated", "--out", str(file)]) == 2
    assert "is no folder" in capsys.readouterr().err
    assert main(["--emulated", "--only", "ftp32", "--out", str(tmp_path / "out")]) == 2
    assert "no item is called ftp32; there are pytorch, " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_results_go_where_out_says(tmp_path, monkeypatch):
    monkeypatch.setenv("OUT", str(tmp_path))
    target = choose_target(parse_options(["--emulated", "--short"]))
    assert (target.out, target.short, target.emulated) == (tmp_path, True, True)


def test_every_core_dependency_is_asked_for():
    assert {"msgspec", "numpy", "rich"} <= set(requirements.core_dependencies())


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(requirements, "core_dependencies", lambda: ["numpy", "no-such-package"])
    missing = requirements.describe_missing("cuda")
    assert "lacks no-such-package" in missing
    assert "pip install no-such-package" in missing


def test_an_old_pytorch_is_named(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(requirements.metadata, "version", lambda name: "2.3.1+cu121")
    assert "needs PyTorch 2.4 or later" in requirements.describe_missing("cuda")
    assert "needs PyTorch 2.9 or later" in requirements.describe_missing("emulated")
