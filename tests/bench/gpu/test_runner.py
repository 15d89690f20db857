"""The runner of the proof on a GPU: what survives, what is begun, and what its page says."""

import os
import signal
import subprocess
import sys
from pathlib import Path

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


def test_results_of_another_device_are_not_taken_over(tmp_path):
    run_here(make_stage(dict), tmp_path)
    gpu = Target("cuda", "NVIDIA H100", 10.0)
    assert StageResult.load("doctor", gpu, tmp_path).items == {}
